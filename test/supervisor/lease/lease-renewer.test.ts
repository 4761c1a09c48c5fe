import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { NotSteering } from "../../../src/errors.js";
import { FakeStore } from "../../support/supervisor/fake-store.js";
import { fakeSupervisor, spawnFakeRun } from "../../support/supervisor/fake-supervisor.js";

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance", "Date"],
  });
});
afterEach(() => {
  vi.useRealTimers();
});

test("all leases are renewed in one statement, and none when there are none", async () => {
  const world = fakeSupervisor();
  await vi.advanceTimersByTimeAsync(3 * defaults.renewMs);
  expect(world.store.log).toEqual([]);
  await Promise.all([spawnFakeRun(world), spawnFakeRun(world), spawnFakeRun(world)]);
  world.store.log.length = 0;
  await vi.advanceTimersByTimeAsync(defaults.renewMs);
  expect(world.store.log).toEqual(["renew"]);
});

test("a supervisor that cannot write controls nothing, but can stop and read", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("disk full");
  await vi.advanceTimersByTimeAsync(defaults.selfFenceMs);
  await expect(run.write("x")).rejects.toThrow(NotSteering);
  expect(() => run.resize({ rows: 1, cols: 1 })).toThrow(NotSteering);
  expect((await run.read("stdout")).bytes).toHaveLength(0);
  await run.cancel();
  expect(world.host.last.stops).toHaveLength(1);
  expect(world.problems.map(({ message }) => message)).toContainEqual(expect.stringContaining("leases"));
  world.store.failing = null;
  await vi.advanceTimersByTimeAsync(defaults.renewMs);
  expect(() => run.resize({ rows: 1, cols: 1 })).not.toThrow();
});

test("after an outage, the first successful write ends the fencing before the next renewal", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("disk full");
  await vi.advanceTimersByTimeAsync(2 * defaults.selfFenceMs - 1);
  world.host.last.output("stdout", 1);
  await vi.advanceTimersByTimeAsync(1);
  expect(() => run.resize({ rows: 1, cols: 1 })).toThrow(NotSteering);
  world.store.failing = null;
  await vi.advanceTimersByTimeAsync(defaults.renewMs / 2);
  expect(() => run.resize({ rows: 1, cols: 1 })).not.toThrow();
});

test("a lease acquired after a long idle time counts as a renewal", async () => {
  const world = fakeSupervisor();
  world.store.failing = new Error("disk full");
  await vi.advanceTimersByTimeAsync(10 * defaults.selfFenceMs);
  world.store.failing = null;
  const run = await spawnFakeRun(world);
  expect(() => run.resize({ rows: 1, cols: 1 })).not.toThrow();
});

test("a supervisor that was fenced while the anchor started sends no GO", async () => {
  const store = new FakeStore();
  const world = fakeSupervisor({ store });
  world.host.prepare = (anchor) => {
    vi.advanceTimersByTime(defaults.selfFenceMs);
    anchor.answers = false;
    world.host.left.set(anchor.runId, {
      exit: anchor.exitFacts({ reason: "spawn-error", leader: null }),
      leader: null,
      firstStop: null,
      swept: null,
    });
  };
  store.beforeWrite = (what) => {
    if (what === "renew") throw new Error("disk full");
  };
  await expect(spawnFakeRun(world)).rejects.toMatchObject({ code: "SPAWN_FAILED", step: "record" });
  expect(world.host.last.goCount).toBe(0);
});

test("output is recorded once per heartbeat interval, and not for a short run", async () => {
  const world = fakeSupervisor();
  const [long, short] = [await spawnFakeRun(world), await spawnFakeRun(world)];
  const [longAnchor, shortAnchor] = [...world.host.anchors.values()];
  shortAnchor?.output("stdout", 10);
  shortAnchor?.exit();
  for (let end = 1; end <= 1_000; end++) {
    longAnchor?.output("stdout", end);
    await vi.advanceTimersByTimeAsync(11);
  }
  await short.wait();
  expect(world.store.eventTypes(short.runId)).toEqual(["spawn", "exit"]);
  expect(world.store.eventTypes(long.runId)).toEqual(["spawn", "output", "output"]);
  expect(world.store.runs.get(long.runId)?.lastOutputAt).not.toBeNull();
});
