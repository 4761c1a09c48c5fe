import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import { hash, numberedLines } from "../../support/byte-pattern.js";
import { repetitions, scaled } from "../../support/scale.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  temporaryHome,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";
import { stdinAccepted } from "./children/stdin-accepted.mjs";
import { chunksIn } from "./output-chunks.js";
import { startKillableSupervisor, type SupervisorOrder } from "./killable-supervisor.js";

const INSTANCE = "in_again";
const KIB = 1024;
const rounds = repetitions(6, 150);
const timeout = repetitions(60_000, 900_000);

/** Long enough for some supervisors to attach, short enough to kill others before they have opened the store. */
const MAX_LIFE_MS = 350;

/** Starts supervisors and kills each at a random moment. The first one holds its runs before it is killed. */
async function killRepeatedly(
  { spawn, ...task }: SupervisorOrder,
  afterEach: () => Promise<void> = async () => {},
): Promise<readonly string[]> {
  const first = startKillableSupervisor(spawn === undefined ? task : { ...task, spawn });
  const runIds = await first.runIds;
  if (task.feed !== undefined) await first.fed;
  await setTimeout(Math.random() * 100);
  await first.kill();
  await afterEach();
  for (let round = 1; round < rounds; round += 1) {
    const next = startKillableSupervisor(task);
    // Every second supervisor attaches before its time starts, so that it is killed while it works.
    if (round % 2 === 0) await next.runIds;
    await setTimeout(Math.random() * (round % 2 === 0 ? 100 : MAX_LIFE_MS));
    await next.kill();
    await afterEach();
  }
  return runIds;
}

/** Starts one run under a supervisor that is then killed. Returns the id of the run. */
async function runOfKilledSupervisor(
  home: string,
  command: NonNullable<SupervisorOrder["spawn"]>[number],
): Promise<string> {
  const started = startKillableSupervisor({ home, instanceId: INSTANCE, spawn: [command] });
  const [runId = expect.fail("no run")] = await started.runIds;
  await started.kill();
  return runId;
}

async function exitsOf(supervisor: Supervisor, runId: string): Promise<number> {
  const events = await supervisor.listEvents({ runId });
  return events.filter(({ type }) => type === "exit").length;
}

async function recoverOnly(supervisor: Supervisor, runId: string): Promise<Run> {
  const runs = await supervisor.recover();
  expect(runs.map((run) => run.runId)).toEqual([runId]);
  return runs[0] ?? expect.fail("not recovered");
}

test(
  `after each of ${rounds} supervisors that are killed while they read, the next continues at the acknowledged offset`,
  { timeout },
  async () => {
    const home = await temporaryHome();
    plantLookalike("sleep", "3051");
    const log = join(home, "log");
    const lines = repetitions(1_500_000, 3_000_000);
    const borders: number[] = [];
    const [runId = ""] = await killRepeatedly(
      {
        home,
        instanceId: INSTANCE,
        spawn: [
          [
            shellInput(`seq 1 ${lines}; exit 9`),
            { stdout: { policy: "back-pressure", boundBytes: 64 * KIB } },
          ],
        ],
        follow: log,
        pauseMs: repetitions(8, 80),
      },
      async () => {
        const { chunks, whole } = await chunksIn(log);
        borders.push(chunks.length);
        await truncate(log, whole).catch(() => {});
      },
    );
    const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
    const run = await recoverOnly(supervisor, runId);
    const { chunks } = await chunksIn(log);
    for await (const { offset, bytes } of run.follow({ streams: ["stdout"], ack: true }))
      chunks.push({ offset, bytes: Buffer.from(bytes) });

    const wanted = Buffer.from(numberedLines(lines));
    let [at, doubled] = [0, 0];
    for (const [index, { offset, bytes }] of chunks.entries()) {
      // Only a chunk that was logged but not acknowledged before the kill may be repeated, as the first of the next supervisor.
      if (offset < at && borders.includes(index)) doubled += at - offset;
      else if (offset !== at) expect.fail(`chunk ${index} begins at ${offset}, and ${at} is next`);
      if (!bytes.equals(wanted.subarray(offset, offset + bytes.length)))
        expect.fail(`wrong bytes at ${offset}`);
      at = offset + bytes.length;
    }
    expect(at).toBe(wanted.length);
    // At most one chunk per kill.
    expect(doubled).toBeLessThanOrEqual(rounds * 64 * KIB);
    expect(await run.wait()).toMatchObject({ exit: { reason: "exit", code: 9, source: "anchor" } });
    expect(await exitsOf(supervisor, runId)).toBe(1);
  },
);

test(
  `input of ${rounds} supervisors that are killed while they write arrives once`,
  { timeout },
  async () => {
    const home = await temporaryHome();
    const feed = join(home, "input");
    const input = numberedLines(repetitions(225_000, 450_000));
    await writeFile(feed, input);
    const [runId = ""] = await killRepeatedly({
      home,
      instanceId: INSTANCE,
      spawn: [[shellInput("cat; exit 3"), {}]],
      feed,
      pauseMs: repetitions(1, 40),
    });
    const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
    const run = await recoverOnly(supervisor, runId);
    const accepted = await stdinAccepted(supervisor, runId);
    expect(accepted).toBeGreaterThan(0);
    await run.write(input.slice(accepted));
    await run.closeStdin();
    const { stdout } = await readOutput(run, { offsets: { stdout: 0 } });
    expect(stdout.length).toBe(input.length);
    expect(hash(stdout)).toBe(hash(input));
    expect(await run.wait()).toMatchObject({ exit: { reason: "exit", code: 3, source: "anchor" } });
    expect(await exitsOf(supervisor, runId)).toBe(1);
  },
);

test(
  "each of many runs that end while supervisors are killed has one end record, with the true status",
  { timeout },
  async () => {
    const home = await temporaryHome();
    plantLookalike("sleep", "3052");
    const spawn = Array.from(
      { length: repetitions(8, 16) },
      (_, at): NonNullable<SupervisorOrder["spawn"]>[number] => [
        shellInput(
          `sleep ${(at * repetitions(0.17, 2)).toFixed(2)}; echo ${at}; ${at % 4 === 3 ? "kill -9 $$" : `exit ${at}`}`,
        ),
        {},
      ],
    );
    const runIds = await killRepeatedly({ home, instanceId: INSTANCE, spawn });
    const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
    await Promise.all((await supervisor.recover()).map((run) => run.wait()));
    for (const [at, runId] of runIds.entries()) {
      const record = await supervisor.getRun(runId);
      expect(record, `run ${at}`).toMatchObject({
        state: "exited",
        exit:
          at % 4 === 3
            ? { reason: "signal", code: null, signal: "SIGKILL" }
            : { reason: "exit", code: at, signal: null },
        emptiness: "proven",
        residueCount: 0,
      });
      expect(["anchor", "exit-file"]).toContain(record?.exit?.source);
      expect(await exitsOf(supervisor, runId), `run ${at}`).toBe(1);
      expect(await findProcessesOfRun(runId)).toEqual([]);
    }
    expect(await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).toEqual([]);
  },
);

test.each(["cancel", "write"] as const)(
  "a confirmed %s has taken effect, although the supervisor is killed at once",
  async (lastly) => {
    const home = await temporaryHome();
    const script = "trap 'exit 5' TERM; while read line; do echo got $line; done";
    const spawn = [[shellInput(script), {}]] as const;
    const first = startKillableSupervisor({ home, instanceId: INSTANCE, spawn, lastly });
    const [runId = ""] = await first.runIds;
    await first.ended;
    const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
    const [run] = await supervisor.recover();
    if (lastly === "write") {
      await run?.closeStdin();
      expect((await readOutput(run ?? expect.fail("not recovered"))).stdout).toBe("got from the first\n");
    }
    await run?.wait();
    const exit = lastly === "cancel" ? { reason: "manual-cancel", actor: "the first" } : { reason: "exit" };
    expect(await supervisor.getRun(runId)).toMatchObject({ exit, emptiness: "proven" });
    expect(await exitsOf(supervisor, runId)).toBe(1);
  },
);

test("the next supervisor continues a PTY run: output, input, window size, end of input", async () => {
  const home = await temporaryHome();
  const script = `stty -echo; echo ready; while read line; do echo "got $line"; stty size; done; exit 6`;
  const input = { io: "pty", argv: ["/bin/sh", "-c", script] } as const;
  const runId = await runOfKilledSupervisor(home, [input, { size: { rows: 30, cols: 100 } }]);
  const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
  const run = await recoverOnly(supervisor, runId);
  await waitForOutput(run, "ready");
  await run.write("one\n");
  await waitForOutput(run, "30 100");
  run.resize({ rows: 44, cols: 132 });
  await run.write("two\n");
  await waitForOutput(run, "44 132");
  await run.closeStdin();
  expect(await run.wait()).toMatchObject({ io: "pty", exit: { reason: "exit", code: 6, source: "anchor" } });
  expect((await readOutput(run)).stdout).toBe("ready\r\ngot one\r\n30 100\r\ngot two\r\n44 132\r\n");
});

test("the overall deadline counts from the start of the command over all supervisors", async () => {
  const home = await temporaryHome();
  const timeoutMs = 6_000;
  const busy = shellInput("while :; do echo busy; sleep 0.02; done");
  const requested = Date.now();
  const runId = await runOfKilledSupervisor(home, [busy, { timeoutMs, graceMs: 100 }]);
  for (let turn = 0; turn < 2; turn += 1) {
    const next = startKillableSupervisor({ home, instanceId: INSTANCE });
    await next.runIds;
    await next.kill();
  }
  await waitFor("half of the time has passed", () => Date.now() > requested + timeoutMs / 2);
  const taken = Date.now();
  const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
  const [run] = await supervisor.recover();
  await run?.wait();
  const { exit, endedAt } = (await supervisor.getRun(runId)) ?? expect.fail("no record");
  // On a slow machine the run may have ended before, or its anchor may be the first that sees the deadline.
  expect(exit?.reason).toBe("overall-timeout");
  expect(exit?.actor).toMatch(/^(deadline|anchor)$/);
  expect(endedAt).toBeGreaterThanOrEqual(requested + timeoutMs);
  // A deadline that was restarted would end later.
  expect(endedAt).toBeLessThan(taken + timeoutMs);
  expect(await exitsOf(supervisor, runId)).toBe(1);
});

test("the record of a run that ended without a supervisor has the time of the end", async () => {
  const home = await temporaryHome();
  const runId = await runOfKilledSupervisor(home, [shellInput("sleep 0.1; exit 2"), {}]);
  await waitFor("the run is gone", async () => (await findProcessesOfRun(runId)).length === 0);
  const gone = Date.now();
  await setTimeout(1_500);
  const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
  await supervisor.recover();
  const record = await supervisor.getRun(runId);
  expect(record?.exit).toMatchObject({ reason: "exit", code: 2, source: "exit-file" });
  expect(record?.endedAt).toBeGreaterThanOrEqual(record?.startedAt ?? Infinity);
  expect(record?.endedAt).toBeLessThanOrEqual(gone + 500);
});

test.each([
  ["overall", { timeoutMs: 600 }, "overall-timeout", "while :; do echo busy; sleep 0.02; done"],
  ["no-output", { noOutputTimeoutMs: 600 }, "no-output-timeout", "echo once; sleep 3053"],
])("the %s deadline is enforced without a supervisor", async (_, limits, reason, script) => {
  const home = await temporaryHome();
  plantLookalike("sleep", "3053");
  const runId = await runOfKilledSupervisor(home, [shellInput(script), { ...limits, graceMs: 100 }]);
  const began = performance.now();
  await waitFor("the run is gone", async () => (await findProcessesOfRun(runId)).length === 0);
  expect(performance.now() - began).toBeLessThan(scaled(600 + 1_000));
  const supervisor = await realSupervisor({ home, instanceId: INSTANCE });
  await Promise.all((await supervisor.recover()).map((run) => run.wait()));
  expect(await supervisor.getRun(runId)).toMatchObject({
    exit: { reason, actor: "anchor", source: expect.stringMatching(/anchor|exit-file/) as string },
    emptiness: "proven",
  });
  expect(await exitsOf(supervisor, runId)).toBe(1);
});
