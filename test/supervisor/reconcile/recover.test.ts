import { expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { Run } from "../../../src/supervisor/api.js";
import { NO_RUN_FILES } from "../../support/supervisor/fake-host.js";
import {
  fakeSupervisor,
  spawnFakeRun,
  nextTurn,
  type FakeSupervisor,
} from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** Simulates SIGKILL of the first supervisor: its links send and receive nothing. */
function killed(world: FakeSupervisor): void {
  for (const anchor of world.host.anchors.values())
    for (const link of anchor.links.splice(0)) link.listen(() => undefined);
}
function successor({ store, host }: FakeSupervisor): FakeSupervisor {
  return fakeSupervisor({ store, host });
}
function alter({ store }: FakeSupervisor, { runId }: Run, change: Partial<RunRecord>): void {
  const record = store.runs.get(runId);
  if (record !== undefined) store.runs.set(runId, { ...record, ...change });
}
const decisions = ({ store }: FakeSupervisor): string[] =>
  store.events.flatMap(({ type, data }) => (type === "reconcile" ? [`${data.action}: ${data.why}`] : []));

test("a live run continues with the same id, a new epoch and its own exit", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  const second = successor(first);
  const [run] = await second.supervisor.recover();
  expect(run?.runId).toBe(before.runId);
  expect(run?.state).toBe("running");
  expect(second.host.attached).toEqual([0, 2]);
  await nextTurn();
  expect(decisions(second)).toEqual(["continue: its anchor is alive"]);
  second.host.last.exit({ leader: { code: 6, signal: null } });
  expect((await run?.wait())?.exit).toMatchObject({ reason: "exit", code: 6 });
  expect(second.store.eventTypes(before.runId)).toEqual(["spawn", "reconcile", "exit"]);
});

test("recovering twice changes nothing", async () => {
  const first = fakeSupervisor();
  await spawnFakeRun(first);
  killed(first);
  const second = successor(first);
  await second.supervisor.recover();
  await nextTurn();
  const after = { runs: [...second.store.runs.values()], events: [...second.store.events] };
  expect(await second.supervisor.recover()).toEqual([]);
  expect(await Promise.all([second.supervisor.recover(), second.supervisor.recover()])).toEqual([[], []]);
  expect({ runs: [...second.store.runs.values()], events: [...second.store.events] }).toEqual(after);
});

test("input continues at the accepted offset, output at the acknowledged one", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  const { host } = first;
  host.spools.set(`${before.runId} stdout`, Buffer.from("0123456789"));
  host.last.welcome = {
    ...host.last.welcome,
    stdinAccepted: 40,
    stdout: { start: 0, end: 10, acked: 4, dropped: 0, closed: false },
  };
  const second = successor(first);
  const [run] = await second.supervisor.recover();
  run?.write("xy").catch(() => undefined);
  expect(host.last.links[0]?.sent).toEqual(["write 40 xy"]);
  host.last.exit({ stdout: { start: 0, end: 10, dropped: 0 } });
  let text = "";
  for await (const { bytes } of run?.follow({ streams: ["stdout"] }) ?? [])
    text += Buffer.from(bytes).toString();
  expect(text).toBe("456789");
});

test("deadlines continue with their remaining time", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first, { timeoutMs: 60_000 });
  killed(first);
  // By the anchor's clock: what the wall says is of no account.
  alter(first, before, { startedAt: Date.now() + 365 * 86_400_000 });
  first.host.last.welcome = { ...first.host.last.welcome, elapsedMs: 60_001 };
  const second = successor(first);
  await second.supervisor.recover();
  expect(second.host.last.stops).toMatchObject([{ reason: "overall-timeout" }]);
});

test("the start is recorded after a supervisor died between GO and its commit", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  alter(first, before, { state: "starting", startedAt: null });
  const second = successor(first);
  await second.supervisor.recover();
  await nextTurn();
  expect(second.store.runs.get(before.runId)).toMatchObject({
    state: "running",
    startedAt: expect.any(Number),
  });
});

test("a command that waits at the gate is never executed", async () => {
  const first = fakeSupervisor();
  first.host.prepare = (anchor) => {
    anchor.autoReply = false;
  };
  void spawnFakeRun(first).catch(() => undefined);
  await waitFor(() => first.host.anchors.size === 1 && first.host.last.goCount === 1);
  killed(first);
  const second = successor(first);
  const [run] = await second.supervisor.recover();
  expect(first.host.last.goCount).toBe(1);
  expect(first.host.last.stops).toMatchObject([{ reason: "spawn-error" }]);
  first.host.last.exit({ executed: false, leader: null });
  expect((await run?.wait())?.exit?.reason).toBe("spawn-error");
});

test.each([
  [
    "it had ended",
    { exit: true },
    { reason: "exit", code: 0, source: "exit-file" },
    "proven",
    "finalize: it has ended; its exit file says how",
  ],
  [
    "the launcher swept",
    { swept: true },
    { reason: "lost" },
    "proven",
    "lose: its anchor died; the launcher killed the processes it left",
  ],
] as const)("no anchor answers: %s", async (_, left, exit, emptiness, decision) => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  const anchor = first.host.last;
  anchor.answers = false;
  first.host.left.set(before.runId, {
    ...NO_RUN_FILES,
    exit: "exit" in left ? anchor.exitFacts() : null,
    swept: "swept" in left ? { anchorSignal: 9, killed: 1, killMode: "pid", emptiness: "proven" } : null,
  });
  const second = successor(first);
  expect(await second.supervisor.recover()).toEqual([]);
  expect(second.store.runs.get(before.runId)).toMatchObject({ state: "exited", exit, emptiness });
  expect(decisions(second)).toEqual([decision]);
  expect(second.host.reaped).toEqual([]);
});

test("a run of another boot is lost and proven, and none of its pids is inspected", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  alter(first, before, { bootId: "the boot before" });
  first.host.alive.add(before.rootPid ?? 0);
  const second = successor(first);
  second.host.inspectProcesses = () => Promise.reject(new Error("must not look"));
  second.host.attach = () => Promise.reject(new Error("must not attach"));
  await second.supervisor.recover();
  const record = second.store.runs.get(before.runId);
  expect(record).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
  expect(record?.exit?.detail).toContain("restarted");
});

test("processes of another container are not touched", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  alter(first, before, { pidNamespace: "pid:[2]" });
  first.host.last.answers = false;
  first.host.alive.add(before.rootPid ?? 0);
  const second = successor(first);
  await second.supervisor.recover();
  expect(second.store.runs.get(before.runId)).toMatchObject({
    exit: { reason: "lost" },
    emptiness: "unproven",
  });
  expect(second.host.reaped).toEqual([]);
});

test("a record without a process ends as a spawn error", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  alter(first, before, { state: "starting", root: null, anchor: null, startedAt: null });
  first.host.anchors.clear();
  const second = successor(first);
  await second.supervisor.recover();
  const record = second.store.runs.get(before.runId);
  expect(record).toMatchObject({ exit: { reason: "spawn-error" }, emptiness: "proven" });
  expect(record?.exit?.detail).toContain("did not run");
});

test("a live anchor without a record gets one", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  first.store.runs.clear();
  const second = successor(first);
  const [run] = await second.supervisor.recover();
  expect(run?.runId).toBe(before.runId);
  expect(second.store.runs.get(before.runId)).toMatchObject({
    state: "running",
    root: { pid: before.rootPid },
    leaseEpoch: 2,
  });
  second.host.last.exit();
  expect((await run?.wait())?.exit?.reason).toBe("exit");
});

test("the processes of an ended record are stopped", async () => {
  const first = fakeSupervisor();
  const before = await spawnFakeRun(first);
  killed(first);
  alter(first, before, { state: "exited" });
  const second = successor(first);
  expect(await second.supervisor.recover()).toEqual([]);
  expect(second.host.last.stops).toHaveLength(1);
});
