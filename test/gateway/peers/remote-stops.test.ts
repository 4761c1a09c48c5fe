import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import {
  type ClusterGateway,
  type ClusterProcess,
  GatewayCluster,
  RunViewer,
  startRun,
} from "../../support/gateway/gateway-cluster.js";
import { errorOf, waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { repetitions } from "../../support/scale.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { waitFor } from "../../support/wait-for.js";

const LONG = { timeout: 240_000 };

describe.skipIf(whyNoPostgres !== null)("a stop that is forwarded to another gateway", LONG, () => {
  let cluster: GatewayCluster;
  let here: ClusterGateway;
  let remote: ClusterGateway;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    here = await cluster.startGateway();
    remote = await cluster.startGateway();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  /** The stop requests for a run, and how often each was acknowledged. */
  const localCopy = async (runId: string): Promise<{ done: number; waiting: number; said: unknown[] }> => {
    const rows = await cluster.database.query(
      `select outcome from holdfast.commands where run_id = '${runId}'`,
    );
    const { events } = await here.client.events({ query: { run: runId, limit: 1_000 } });
    const said = events.filter(({ type }) => type === "command").map(({ data }) => data["outcome"]);
    const waiting = rows.filter(({ outcome }) => outcome === null).length;
    return { done: rows.length - waiting, waiting, said };
  };

  test("is executed when that gateway is back, and reported as forwarded until then", async () => {
    const runId = await startRun(remote, "sleep 1000");
    await cluster.stopGateway(remote);
    const [first, second] = await Promise.all([
      here.client.kill({ params: { runId }, body: { requestId: "req-first", waitMs: 500 } }),
      here.client.kill({ params: { runId }, body: { requestId: "req-second", waitMs: 500 } }),
    ]);
    for (const answer of [first, second])
      expect(answer).toMatchObject({
        outcome: "handed-over",
        run: { state: "running" },
        command: { accepted: false, instanceId: remote.gateway.instanceId, error: null },
      });
    expect(first.command?.lastHeardAt).toBeGreaterThan(0);
    expect(await localCopy(runId)).toMatchObject({ done: 0 });
    remote = await cluster.startGateway(undefined, remote.home);
    expect((await waitForRunEnd(here.client, runId)).exit).toMatchObject({
      reason: "manual-cancel",
      actor: "operator",
    });
    await waitFor("it was acknowledged", async () => (await localCopy(runId)).waiting === 0);
    // A repeated request with the same id has the same result.
    const again = await here.client.kill({ params: { runId }, body: { requestId: "req-first" } });
    expect(again.outcome).toBe("ended-before");
    const { done, said } = await localCopy(runId);
    expect(said.filter((outcome) => outcome !== null)).toHaveLength(done);
  });

  test("is idempotent by the id of the request, which belongs to one run", async () => {
    const [one, other] = [await startRun(remote, "sleep 1000"), await startRun(remote, "sleep 1000")];
    const kill = (runId: string) => here.client.kill({ params: { runId }, body: { requestId: "req-same" } });
    expect(await Promise.all([kill(one), kill(one)])).toMatchObject([
      { outcome: "gone" },
      { outcome: "gone" },
    ]);
    expect(await localCopy(one)).toMatchObject({ done: 1, said: [null, "gone"] });
    expect(await errorOf(kill(other))).toMatchObject({ code: "BAD_INPUT" });
    expect(await here.client.getRun({ params: { runId: other } })).toMatchObject({ state: "running" });
  });

  test("is acknowledged as ended-before when the run has ended meanwhile", async () => {
    const [go, done] = [join(remote.home, "go"), join(remote.home, "done")];
    const runId = await startRun(remote, `until [ -e ${go} ]; do sleep 0.05; done; echo >${done}; exit 3`);
    await cluster.stopGateway(remote);
    const killing = here.client.kill({ params: { runId } });
    await waitFor("it waits", async () => (await localCopy(runId)).waiting === 1);
    await writeFile(go, "");
    await waitFor("it has ended", () => existsSync(done));
    remote = await cluster.startGateway(undefined, remote.home);
    expect(await killing).toMatchObject({ outcome: "ended-before", run: { exit: { code: 3 } } });
    expect(await localCopy(runId)).toMatchObject({ done: 1, said: [null, "ended-before"] });
  });

  describe("survives the kill of", () => {
    let asked: ClusterProcess;
    let there: ClusterProcess;
    beforeAll(async () => {
      [asked, there] = await Promise.all([cluster.spawnGateway(), cluster.spawnGateway()]);
    });
    afterAll(async () => {
      await Promise.all([asked, there].map((each) => each.client.stop({ body: { runs: "terminate" } })));
    });

    test("either gateway at any moment: executed, and acknowledged once", async () => {
      const stranger = await startRun(there, "sleep 1000");
      const moments = [
        ["there", 25],
        ["asked", 0],
        ["there", 0],
        ["asked", 25],
      ] as const;
      for (const [whom, afterMs] of moments.slice(0, repetitions(2, 4))) {
        const runId = await startRun(there, "trap 'sleep 0.05; exit' TERM; while :; do sleep 0.02; done");
        const killing = asked.client.kill({ params: { runId } }).catch(() => null);
        await waitFor("it is handed over", async () => {
          const { done, waiting } = await localCopy(runId);
          return done + waiting > 0;
        });
        await setTimeout(afterMs);
        await { asked, there }[whom].kill();
        if (whom === "there") there = await cluster.spawnGateway(there.home);
        else asked = await cluster.spawnGateway(asked.home);
        await killing;
        expect((await waitForRunEnd(here.client, runId)).exit, `${whom} ${afterMs}`).toMatchObject({
          reason: "manual-cancel",
          actor: "operator",
        });
        await waitFor("it was acknowledged", async () => (await localCopy(runId)).waiting === 0);
        const { done, said } = await localCopy(runId);
        expect([done, said], `${whom} ${afterMs}`).toEqual([1, [null, "gone"]]);
      }
      expect(await there.client.getRun({ params: { runId: stranger } })).toMatchObject({ state: "running" });
      await there.client.kill({ params: { runId: stranger } });
    });

    test("the gateway whose output is followed: a reconnected viewer continues at its offset", async () => {
      const bytes = 1_000_000;
      const half = bytes / 2;
      const line = "0123456789abcdef\n";
      const script = `yes 0123456789abcdef | head -c ${half}; read go; yes 0123456789abcdef | tail -c +$((${half} % 17 + 1)) | head -c ${half}; sleep 1000`;
      const runId = await startRun(there, script, { stdin: "pipe" });
      const viewer = new RunViewer(here, runId);
      await waitFor("half of it", () => viewer.nextOffset === half, 30_000);
      await there.kill();
      expect(await viewer.closed).toBe(1006);
      expect(await errorOf(here.client.log({ params: { runId } }))).toMatchObject({
        code: "PEER_UNREACHABLE",
      });
      there = await cluster.spawnGateway(there.home);
      const next = new RunViewer(here, runId, viewer.nextOffset);
      await writeTo(here.client, runId, "go\n");
      await waitFor("all of it", () => next.nextOffset === bytes, 30_000);
      next.socket.terminate();
      const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
      const wanted = line.repeat(bytes / line.length + 1).slice(0, bytes);
      expect(hash(viewer.text + next.text)).toBe(hash(wanted));
      await here.client.kill({ params: { runId }, body: { graceMs: 0 } });
    });
  });
});

async function writeTo(client: GatewayClient, runId: string, text: string): Promise<void> {
  await client.write({ params: { runId }, body: { text } });
}
