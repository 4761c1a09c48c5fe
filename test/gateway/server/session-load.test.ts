import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { NewRunEvent } from "../../../src/model/run-event.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { newRunEvent, EXITED, LEASE_MS, newRun } from "../../support/store/run-samples.js";
import { repetitions, scaled } from "../../support/scale.js";
import { startGatewayProcess, temporaryHomeWithBystander } from "../../support/gateway/gateway-process.js";

/** With the connections of the requests, more than a session may have. */
const FOLLOWERS = repetitions(450, 2_000);
const REQUESTS = repetitions(600, 10_000);
const RUNS = repetitions(10, 30);
const RUNS_WITH_LARGE_LABELS = repetitions(8, 24);
/** Events of each run. */
const EVENTS = repetitions(200, 600);
/** Runs of a session that requests all of them at once, of which 20 have large labels. */
const LISTED = repetitions(200, 1_000);
/** A request could carry that much before labels had a limit. */
const LARGEST_LABEL = 3_900_000;

/** The promise to the operator, on a quiet machine. */
const ANSWER_MS = 1_000;
/** The gateway's memory: about 100 MB without load, 260 MB measured with it. */
const RSS_MB = 600;

async function rssOf(pid: number): Promise<number> {
  const [, kb = ""] =
    /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, "utf8").catch(() => "")) ?? [];
  return Number(kb) / 1024;
}

/** Ended runs of two sessions, with events; labels as they could be stored before they had a limit. */
async function fill(home: string, sessionIds: readonly string[]): Promise<void> {
  const path = join(home, "store.sqlite");
  await using store = await openSqliteStore({ path });
  const now = Date.now();
  const leases = [];
  for (let at = 0; at < RUNS; at++) {
    const sessionId = sessionIds[at % sessionIds.length] ?? "";
    leases.push(await store.insertRun(newRun({ sessionId, createdAt: now }), LEASE_MS));
  }
  storeLargeLabels(path);
  for (const lease of leases) {
    await store.saveRun(lease, { ...EXITED, at: now });
    const output = {
      ...newRunEvent(lease.runId, now),
      type: "output",
      data: { stdout: 1, stderr: 0 },
    } as const satisfies NewRunEvent;
    await store.appendEvents(Array.from({ length: EVENTS }, () => output));
  }
}

function storeLargeLabels(path: string): void {
  const database = new DatabaseSync(path);
  // These rows need not survive a power failure, and 100 MB take long to sync.
  database.exec("pragma synchronous = off; pragma busy_timeout = 10000");
  database
    .prepare("update runs set labels = ? where rowid in (select rowid from runs limit ?)")
    .run(JSON.stringify({ large: "x".repeat(LARGEST_LABEL) }), RUNS_WITH_LARGE_LABELS);
  database.close();
}

async function flood(home: string, token: string) {
  const child = spawn(
    process.execPath,
    [
      "test/gateway/server/children/flood.mjs",
      gatewaySocketPath(home),
      token,
      String(FOLLOWERS),
      String(REQUESTS),
    ],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    ready: lines.next(),
    end: async () => {
      child.stdin.write("end\n");
      const { value } = await lines.next();
      await once(child, "exit");
      return JSON.parse(value as string) as { statuses: Record<string, number> };
    },
  };
}

test(
  `${FOLLOWERS} followers and ${REQUESTS} requests of one session: the operator's list and stop answer within a second`,
  { timeout: 240_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    const { client: operator, pid } = await startGatewayProcess(home);
    const { session, token } = await operator.openSession({ body: { key: "busy" } });
    const { session: another } = await operator.openSession({ body: { key: "another" } });
    await fill(home, [session.id, another.id]);
    const runs = [];
    for (let at = 0; at < 4; at++) {
      const { run } = await operator.exec({ body: { argv: ["sleep", "60"], background: true, graceMs: 0 } });
      runs.push(run.runId);
    }

    const flooding = await flood(home, token);
    let most = 0;
    let going = true;
    const watching = (async () => {
      while (going) {
        most = Math.max(most, await rssOf(pid));
        await delay(20);
      }
    })();
    const slow: string[] = [];
    const timed = async <T>(what: string, asking: Promise<T>): Promise<T> => {
      const begun = performance.now();
      const answer = await asking;
      const ms = Math.round(performance.now() - begun);
      if (ms >= ANSWER_MS && ms >= scaled(ANSWER_MS)) slow.push(`${what} took ${ms} ms`);
      return answer;
    };
    for (const runId of runs) {
      const { runs: listed } = await timed("list", operator.listRuns());
      expect(listed.map((run) => run.runId)).toContain(runId);
      const stopped = await timed("stop", operator.kill({ params: { runId } }));
      expect(stopped.outcome).toBe("gone");
      await delay(250);
    }
    await flooding.ready;
    // A connection that the operator opens now is answered, too.
    const { token: other } = await operator.openSession({ body: { key: "third" } });
    const third = createClient({ socketPath: gatewaySocketPath(home), token: other });
    expect(await third.listRuns({ query: { all: "1" } })).toMatchObject({ runs: [], next: null });
    const { statuses } = await flooding.end();
    going = false;
    await watching;

    expect(slow).toEqual([]);
    // Streams and connections beyond the limits are refused; how many by now depends on the machine.
    expect(statuses["429"]).toBeGreaterThan(0);
    expect(statuses["500"]).toBeUndefined();
    expect(most).toBeLessThan(RSS_MB);
  },
);

test(
  "a session that requests all runs with large labels leaves the gateway small and the operator served",
  { timeout: 240_000 },
  async () => {
    const home = await temporaryHomeWithBystander();
    const { client: operator, pid } = await startGatewayProcess(home);
    const { session, token } = await operator.openSession({ body: { key: "large" } });
    {
      await using store = await openSqliteStore({ path: join(home, "store.sqlite") });
      for (let at = 0; at < LISTED + 100; at++) {
        const labels = { large: "x".repeat(at < 20 ? LARGEST_LABEL : 16_000) };
        const run = newRun({ sessionId: session.id, labels, createdAt: Date.now() });
        const lease = await store.insertRun(run, LEASE_MS);
        await store.saveRun(lease, { ...EXITED, at: Date.now() });
      }
    }
    const client = createClient({ socketPath: gatewaySocketPath(home), token });
    const params = { id: session.id };
    const before = await rssOf(pid);
    for (let at = 0; at < 3; at++) {
      const { runs } = await client.sessionHistory({ params, query: { limit: LISTED } });
      expect(runs).toHaveLength(LISTED);
      await client.sessionStatus({ params });
    }
    expect((await rssOf(pid)) - before).toBeLessThan(100);
    const [cleared, waited] = await Promise.all([
      client.clear(),
      delay(50).then(async () => {
        const begun = performance.now();
        await operator.listRuns();
        return performance.now() - begun;
      }),
    ]);
    expect(cleared).toEqual({ cleared: LISTED + 100 });
    expect(waited).toBeLessThan(scaled(ANSWER_MS));
    expect((await rssOf(pid)) - before).toBeLessThan(200);
  },
);
