import { scaled } from "../../support/scale.js";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { StdinClosed } from "../../../src/errors.js";
import { startChild } from "../../support/store/child-process.js";
import {
  findProcessesOfRun,
  readOutput,
  realSupervisor,
  shellInput,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** Leader, plain child, TERM-ignoring child, `setsid` child, `env -i setsid` double fork. */
const TREE = `
sleep 3017 &
(trap '' TERM; sleep 3017 & wait) &
setsid sleep 3017 &
(env -i setsid sh -c 'sleep 3017 & sleep 3017' &)
echo ready
wait`;

test("a pipe run: input, both outputs, exit code, a proven end", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(shellInput("cat; echo oops >&2; exit 7"));
  expect(run.state).toBe("running");
  await run.write("hello ");
  await run.write(Buffer.from("world\n"));
  await run.closeStdin();
  expect(await readOutput(run)).toEqual({ stdout: "hello world\n", stderr: "oops\n" });
  const record = await run.wait();
  expect(record).toMatchObject({
    state: "exited",
    exit: { reason: "exit", code: 7, signal: null, source: "anchor" },
    residueCount: 0,
    emptiness: "proven",
  });
  expect(await supervisor.getRun(run.runId)).toEqual(record);
  const { createdAt, startedAt, lastOutputAt, endedAt } = record;
  const times = [createdAt, startedAt ?? 0, lastOutputAt ?? 0, endedAt ?? 0];
  expect(times).toEqual(times.toSorted((one, other) => one - other));
  const events = await supervisor.listEvents({ runId: run.runId });
  expect(events.map(({ type }) => type)).toEqual(["spawn", "exit"]);
});

test("a PTY run: a terminal of the right size, resized, with its own end of input", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(
    { io: "pty", ptyCommand: "stty size; read line; stty size; cat; exit 4" },
    { size: { rows: 30, cols: 100 } },
  );
  await waitForOutput(run, "30 100");
  run.resize({ rows: 50, cols: 120 });
  await run.write("go\n");
  await waitForOutput(run, "50 120");
  await run.closeStdin();
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "exit", code: 4 });
  expect(record.io).toBe("pty");
});

test("output is byte-exact for two followers, one of them late", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(shellInput("seq 1 300000"));
  const wanted = Array.from({ length: 300_000 }, (_, at) => `${at + 1}\n`).join("");
  expect((await readOutput(run)).stdout).toBe(wanted);
  await run.wait();
  expect((await readOutput(run)).stdout).toBe(wanted);
});

test("a back-pressured stream waits for acks and loses nothing", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(shellInput("seq 1 300000"), {
    stdout: { policy: "back-pressure", boundBytes: 64 * 1024 },
    noOutputTimeoutMs: scaled(150),
  });
  // No reader for longer than the no-output limit: that is not silence of the program.
  await new Promise((resolve) => setTimeout(resolve, scaled(400)));
  expect(run.state).toBe("running");
  const { stdout } = await readOutput(run, { ack: true });
  expect(stdout).toBe(Array.from({ length: 300_000 }, (_, at) => `${at + 1}\n`).join(""));
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
});

test("the no-output timeout ends a silent run and no other", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(
    shellInput("for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; sleep 3017"),
    {
      noOutputTimeoutMs: 600,
      graceMs: 100,
    },
  );
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "no-output-timeout", actor: "deadline" });
  expect((await readOutput(run)).stdout).toBe("1\n2\n3\n4\n5\n");
  expect(await findProcessesOfRun(run.runId)).toEqual([]);
});

test("a program that closes its stdin gets no more input and continues", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(shellInput("exec <&-; echo closed; sleep 0.5; exit 3"));
  await waitForOutput(run, "closed");
  const error = await (async () => {
    for (;;) await run.write("x".repeat(200_000));
  })().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(StdinClosed);
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 3 });
});

test("two hundred runs at once, and nothing is left of an ephemeral instance", async () => {
  const supervisor = await realSupervisor({ discardOutput: true });
  const codes = await Promise.all(
    Array.from({ length: 200 }, async (_, at) => {
      const run = await supervisor.spawn(shellInput(`exit ${at}`));
      return (await run.wait()).exit?.code;
    }),
  );
  expect(codes).toEqual(Array.from({ length: 200 }, (_, at) => at));
  await supervisor.close();
  expect(await readdir(join(supervisor.home, "instances"))).toEqual([]);
});

test("a run can be stopped with a locked store, and its end is recorded later", async () => {
  const problems: string[] = [];
  const supervisor = await realSupervisor({ onProblem: ({ message }) => problems.push(message) });
  const run = await supervisor.spawn(shellInput("exec sleep 3017"), { graceMs: 100 });
  const locker = new DatabaseSync(join(supervisor.home, "store.sqlite"));
  locker.exec("begin immediate");
  await run.cancel({ actor: "test" });
  await waitFor("the run is gone", async () => (await findProcessesOfRun(run.runId)).length === 0);
  await waitFor("the store's refusal is reported", () => problems.length > 0);
  expect(problems.join()).toContain("a write to the store failed");
  locker.exec("rollback");
  locker.close();
  expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "test" });
  const events = await supervisor.listEvents({ runId: run.runId });
  expect(events.map(({ type }) => type)).toEqual(["spawn", "cancel", "exit"]);
});

test("while another process has the store locked, output of other runs arrives without a gap", async () => {
  const supervisor = await realSupervisor({ onProblem: () => undefined });
  const ticking = await supervisor.spawn(shellInput("while :; do echo tick; sleep 0.02; done"), {
    graceMs: 100,
  });
  const ends = await supervisor.spawn(shellInput("read go; exit 3"));
  await waitForOutput(ticking, "tick");
  await using holder = startChild("hold-write-lock", join(supervisor.home, "store.sqlite"), "3000");
  expect(await holder.next()).toBe("locked");
  const released = holder.ended;
  await ends.write("go\n");
  const ended = ends.wait();
  let longestGap = 0;
  const reading = (async () => {
    let last = performance.now();
    for await (const _ of ticking.follow()) {
      longestGap = Math.max(longestGap, performance.now() - last);
      last = performance.now();
    }
  })();
  await released;
  expect(await ended).toMatchObject({ state: "exited", exit: { reason: "exit", code: 3 } });
  await ticking.cancel();
  expect(await ticking.wait()).toMatchObject({ state: "exited", exit: { reason: "manual-cancel" } });
  await reading;
  expect(longestGap).toBeLessThan(1_000);
  for (const { runId } of [ticking, ends])
    expect((await supervisor.listEvents({ runId })).filter(({ type }) => type === "exit")).toHaveLength(1);
});

test("close stops all runs as a shutdown", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(shellInput(TREE), { graceMs: 100 });
  await waitForOutput(run, "ready");
  const ended = run.wait();
  await supervisor.close({ actor: "test" });
  expect(await ended).toMatchObject({ exit: { reason: "shutdown", actor: "test" }, emptiness: "proven" });
  expect(await findProcessesOfRun(run.runId)).toEqual([]);
});
