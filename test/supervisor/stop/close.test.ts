import { expect, onTestFinished, test, vi } from "vitest";
import { fakeSupervisor, spawnFakeRun } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

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
