import { expect, test } from "vitest";
import { REAPED_USAGE } from "../../../src/model/run.js";
import type { FakeAnchor } from "../../support/supervisor/fake-anchor.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const residue = [
  { pid: 5, startTime: 1, kind: "background", command: "sleep" },
  { pid: 6, startTime: 1, kind: "detached", command: "daemon" },
] as const;

test("the anchor's exit is copied, with its cleanup and escape, in one transaction", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.exit({
    reason: "ownership-escape",
    residue,
    residueCount: 2,
    killMode: "cgroup",
    processes: 4,
    leader: { code: 7, signal: null },
  });
  const record = await run.wait();
  expect(record).toMatchObject({
    exit: { reason: "ownership-escape", code: 7, source: "anchor" },
    residue,
    residueCount: 2,
    usage: { ...REAPED_USAGE, cpuMs: 1, peakKb: 1, processes: 4 },
    emptiness: "proven",
  });
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "escape", "cleanup", "exit"]);
  expect(world.store.events.at(-1)).toMatchObject({ descendants: 3, rootPid: run.rootPid });
  expect(world.store.events.find(({ type }) => type === "escape")?.data).toEqual({
    residue: [{ pid: 6, kind: "detached", command: "daemon" }],
  });
});

test("an end that the boundary cannot prove is recorded with its reason, and names no survivor", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.exit({
    reason: "exit",
    residue,
    residueCount: 2,
    killMode: "pid",
    leader: { code: 0, signal: null },
    emptiness: "unproven",
    emptinessNote: "process 5 (sleep) was started",
  });
  const record = await run.wait();
  expect(record).toMatchObject({
    state: "exited",
    emptiness: "unproven",
    exit: { reason: "exit", code: 0, detail: "emptiness unproven: process 5 (sleep) was started" },
  });
  expect(world.store.events.find(({ type }) => type === "cleanup")?.data).toMatchObject({ survivors: 0 });
});

test("a run whose start is reported late does not end before it started", async () => {
  const world = fakeSupervisor();
  world.host.prepare = (made) => {
    made.autoReply = false;
  };
  const starting = spawnFakeRun(world);
  await waitFor(() => [...world.host.anchors.values()].at(-1)?.goCount === 1);
  const anchor = world.host.last;
  const endedAt = Date.now();
  anchor.autoReply = true;
  await new Promise((resolve) => setTimeout(resolve, 20));
  anchor.go();
  const run = await starting;
  anchor.exit({ endedAt, durationMs: 1 });
  const record = await run.wait();
  expect(record.endedAt).toBe(endedAt);
  expect(record.startedAt).toBeLessThanOrEqual(endedAt);
});

test("a run does not end before it started when the wall clock is set back: its duration counts", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.output("stdout", 3);
  world.host.last.exit({ endedAt: Date.now() - 3_600_000, durationMs: 2_000 });
  const { createdAt, startedAt, lastOutputAt, endedAt } = await run.wait();
  expect(startedAt).toBeGreaterThanOrEqual(createdAt);
  expect(endedAt).toBe((startedAt ?? 0) + 2_000);
  expect(lastOutputAt).toBeGreaterThanOrEqual(startedAt ?? Infinity);
  expect(lastOutputAt).toBeLessThanOrEqual(endedAt ?? 0);
  expect(world.store.events.at(-1)).toMatchObject({ type: "exit", at: endedAt });
});

test.for([
  ["reported while it ran", (anchor: FakeAnchor) => anchor.output("stdout", 3), {}],
  ["reported with its end", () => undefined, { stderr: { start: 0, end: 4, dropped: 0 } }],
] as const)("a short run has a time of its last output, %s", async ([, say, end]) => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  say(world.host.last);
  world.host.last.exit({ ...end, endedAt: Date.now() });
  const { startedAt, lastOutputAt, endedAt } = await run.wait();
  expect(lastOutputAt).toBeGreaterThanOrEqual(startedAt ?? Infinity);
  expect(lastOutputAt).toBeLessThanOrEqual(endedAt ?? 0);
});

test("a run without output has no lastOutputAt", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.exit();
  expect((await run.wait()).lastOutputAt).toBeNull();
});

test("a second end changes nothing", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const anchor = world.host.last;
  const [link] = anchor.links;
  link?.emit({ type: "exited", exit: anchor.exitFacts({ leader: { code: 1, signal: null } }) });
  link?.emit({ type: "exited", exit: anchor.exitFacts({ leader: { code: 2, signal: null } }) });
  link?.emit({ type: "closed" });
  expect((await run.wait()).exit?.code).toBe(1);
  await nextTurn();
  expect(world.store.log.filter((what) => what === "exited")).toHaveLength(1);
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "exit"]);
});

test("an end that another supervisor recorded is not recorded again", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const record = world.store.runs.get(run.runId);
  if (record !== undefined) world.store.runs.set(run.runId, { ...record, state: "exited" });
  world.host.last.exit();
  expect(await run.wait()).toMatchObject({ state: "exited", exit: null });
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn"]);
});

test("wait resolves when the end is committed, which is tried until it succeeds", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("disk full");
  world.host.last.exit();
  let answered = false;
  const ended = run.wait().then((record) => {
    answered = true;
    return record;
  });
  await waitFor(() => world.problems.length >= 2);
  expect(answered).toBe(false);
  expect(world.supervisor.run(run.runId)).toBe(run);
  expect(world.host.discarded).toEqual([]);
  world.store.failing = null;
  expect((await ended).state).toBe("exited");
  expect(world.supervisor.run(run.runId)).toBeNull();
});

test("wait rejects if the end cannot be committed before close", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("disk full");
  world.host.last.exit();
  const ended = run.wait().catch((error: unknown) => error);
  await world.supervisor.close({ leaveRuns: true });
  expect(await ended).toMatchObject({ code: "SUPERVISOR_CLOSED" });
  expect(String(await ended)).toContain("not recorded");
});

test("without discardOutput the run's directory stays", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.exit();
  await run.wait();
  await nextTurn();
  expect(world.host.discarded).toEqual([]);
});

test("with discardOutput it is removed when the end is known to a caller and there is no follower", async () => {
  const world = fakeSupervisor({ discardOutput: true });
  const run = await spawnFakeRun(world);
  world.host.spools.set(`${run.runId} stdout`, Buffer.from("output"));
  world.host.last.output("stdout", 6);
  world.host.last.exit();
  await nextTurn();
  expect(world.host.discarded).toEqual([]);
  await run.wait();
  // Begun in answer to the end: in time.
  const chunks = run.follow()[Symbol.asyncIterator]();
  const { value } = await chunks.next();
  expect(Buffer.from((value as { bytes: Uint8Array }).bytes).toString()).toBe("output");
  await nextTurn();
  expect(world.host.discarded).toEqual([]);
  expect((await chunks.next()).done).toBe(true);
  await waitFor(() => world.host.discarded.length > 0);
  expect(world.host.discarded).toEqual([run.runId]);
});

test("survivors are recorded and reported once, and the run stays open", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  await run.cancel();
  const survivors = [{ pid: 9, startTime: 1, kind: "unkillable", command: "dd" }];
  world.host.last.emit({ type: "survivors", survivors });
  world.host.last.emit({ type: "survivors", survivors });
  expect(run.state).toBe("exiting");
  expect(run.survivors).toEqual(survivors);
  await nextTurn();
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel", "cleanup"]);
  expect(world.problems.map(({ message }) => message).join()).toContain("9 dd (unkillable)");
  world.host.last.exit();
  expect((await run.wait()).emptiness).toBe("proven");
});
