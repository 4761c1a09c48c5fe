import { expect, onTestFinished, test, vi } from "vitest";
import type { Emptiness } from "../../../src/model/run.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

test("cancel sends the stop to the anchor and records its actor", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  await run.cancel({ actor: "cli:alice", requestId: "r1" });
  expect(world.host.last.stops).toEqual([
    { reason: "manual-cancel", actor: "cli:alice", requestId: "r1", graceMs: null },
  ]);
  expect(run.state).toBe("exiting");
  expect(run.firstStop).toMatchObject({ actor: "cli:alice" });
  expect(world.store.runs.get(run.runId)?.state).toBe("exiting");
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel"]);
});

test("a second stop can shorten the grace period but not change the reason", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  await run.cancel({ actor: "first" });
  await run.cancel({ actor: "second", reason: "shutdown", graceMs: 0 });
  expect(world.host.last.stops.map(({ graceMs }) => graceMs)).toEqual([null, 0]);
  expect(run.firstStop).toMatchObject({ actor: "first", reason: "manual-cancel" });
  world.host.last.exit();
  expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "first" });
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel", "exit"]);
});

test("the first stop that the anchor reports is recorded", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.stop({ reason: "manual-cancel", actor: "signal:TERM pid:7", requestId: "", graceMs: null });
  await run.cancel({ actor: "late" });
  world.host.last.exit();
  expect((await run.wait()).exit).toMatchObject({ actor: "signal:TERM pid:7" });
});

test("a stop does not wait for the store", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("database is locked");
  await run.cancel();
  expect(world.host.last.stops).toHaveLength(1);
  await nextTurn();
  expect(world.problems[0]).toMatchObject({ runId: run.runId, cause: world.store.failing });
  world.host.last.exit();
  const ended = run.wait();
  expect(run.state).toBe("exited");
  world.store.failing = null;
  expect(await ended).toMatchObject({ state: "exited", exit: { reason: "manual-cancel" } });
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel", "exit"]);
});

test("a stop is no success without a proof of the end, also when the record is late", async () => {
  const world = fakeSupervisor();
  const outcomeWith = async (emptiness: Emptiness): Promise<string> => {
    const { runId } = await spawnFakeRun(world);
    const anchor = world.host.last;
    world.store.failing = new Error("database is locked");
    const stopped = world.supervisor.stop(runId);
    await waitFor("the stop is sent", () => anchor.stops.length > 0);
    anchor.exit({ emptiness });
    const { outcome } = await stopped;
    world.store.failing = null;
    return outcome;
  };
  expect(await outcomeWith("proven")).toBe("gone");
  expect(await outcomeWith("unproven")).toBe("unknown");
});

test("a stop between two connections is sent on the next", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.disconnect();
  await run.cancel({ actor: "meanwhile" });
  expect(world.host.last.stops).toMatchObject([{ actor: "meanwhile" }]);
});

test("a stop after the end does nothing", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.exit();
  const record = await run.wait();
  await run.cancel();
  expect(await world.supervisor.getRun(run.runId)).toEqual(record);
});

test("an invalid grace period is refused and stops nothing", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  await expect(run.cancel({ graceMs: -1 })).rejects.toMatchObject({ code: "BAD_INPUT" });
  expect(world.host.last.stops).toEqual([]);
});

test("a deadline stops the run with its own reason", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world, { timeoutMs: 20 });
  await waitFor(() => world.host.last.stops.length > 0);
  expect(world.host.last.stops).toMatchObject([{ reason: "overall-timeout", actor: "deadline" }]);
  world.host.last.exit();
  expect((await run.wait()).exit).toMatchObject({ reason: "overall-timeout", actor: "deadline" });
});

test("a heartbeat postpones the no-output deadline, also in the anchor", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world, { noOutputTimeoutMs: 60 });
  for (let beat = 0; beat < 10; beat++) {
    await new Promise((resolve) => setTimeout(resolve, 15));
    run.heartbeat();
  }
  expect(world.host.last.stops).toEqual([]);
  expect(world.host.last.links[0]?.sent).toContain("heartbeat");
  await waitFor(() => world.host.last.stops.length > 0);
  expect(world.host.last.stops).toMatchObject([{ reason: "no-output-timeout" }]);
});

test("close stops every run as a shutdown and waits for every end", async () => {
  let left = -1;
  const world = fakeSupervisor({
    onClosed: async (count) => {
      left = count;
    },
  });
  const runs = await Promise.all([spawnFakeRun(world), spawnFakeRun(world)]);
  const closing = world.supervisor.close({ actor: "cli:bob" });
  await waitFor(() => [...world.host.anchors.values()].every(({ stops }) => stops.length > 0));
  expect(left).toBe(-1);
  for (const anchor of world.host.anchors.values()) anchor.exit();
  await closing;
  for (const run of runs)
    expect((await run.wait()).exit).toMatchObject({ reason: "shutdown", actor: "cli:bob" });
  expect(left).toBe(0);
  await expect(spawnFakeRun(world)).rejects.toMatchObject({ code: "SUPERVISOR_CLOSED" });
});

test("a spawn in progress is stopped by close, too", async () => {
  const world = fakeSupervisor();
  const spawning = spawnFakeRun(world);
  const closing = world.supervisor.close();
  await waitFor(() => world.host.anchors.size === 1 && world.host.last.stops.length > 0);
  world.host.last.exit();
  await closing;
  expect((await (await spawning).wait()).exit?.reason).toBe("shutdown");
});

test("close with leaveRuns detaches from runs without a stop", async () => {
  let left = -1;
  const world = fakeSupervisor({
    onClosed: async (count) => {
      left = count;
    },
  });
  const run = await spawnFakeRun(world);
  const ended = run.wait();
  const following = (async () => {
    for await (const _ of run.follow());
  })();
  await world.supervisor.close({ leaveRuns: true });
  expect(world.host.last.stops).toEqual([]);
  expect(world.host.last.links).toEqual([]);
  expect(left).toBe(1);
  await expect(ended).rejects.toMatchObject({ code: "SUPERVISOR_CLOSED" });
  await following;
  expect(world.store.runs.get(run.runId)?.state).toBe("running");
});

test("survivors are reported, and close ends", async () => {
  const world = fakeSupervisor();
  await spawnFakeRun(world, { graceMs: 1 });
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const closing = world.supervisor.close();
  world.host.last.emit({
    type: "survivors",
    survivors: [{ pid: 9, startTime: 1, kind: "unkillable", command: "dd" }],
  });
  await vi.advanceTimersByTimeAsync(60_000);
  await closing;
  expect(world.problems.at(-1)?.message).toContain("still has 9 dd (unkillable)");
});

test("a second close is the same as the first", async () => {
  const world = fakeSupervisor();
  const closing = world.supervisor.close();
  expect(world.supervisor.close({ leaveRuns: true })).toBe(closing);
  await closing;
});

test("the directory of an instance is kept while a run that was taken over uses it", async () => {
  const told: number[] = [];
  const world = fakeSupervisor({ onClosed: async (left) => void told.push(left) });
  const { store, host, supervisor } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  store.runs.set(run.runId, { ...record, ownerInstanceId: "in_thief", leaseEpoch: 2 });
  host.last.welcome = { ...host.last.welcome, highestEpoch: 2 };
  host.last.disconnect();
  await expect(run.wait()).rejects.toMatchObject({ code: "LEASE_LOST" });
  await supervisor.close();
  expect(told).toEqual([1]);
});
