import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/async/clock.js";
import { defaults } from "../../../src/defaults.js";
import { StoreCircuitBreaker } from "../../../src/supervisor/run/store-circuit-breaker.js";
import { fakeSupervisor, spawnFakeRun } from "../../support/supervisor/fake-supervisor.js";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("while writes succeed, no caller waits", () => {
  const gate = new StoreCircuitBreaker(systemClock);
  expect([gate.admit(), gate.admit()]).toEqual([null, null]);
});

test("after a failure one caller tries, and the others follow after its success", async () => {
  const gate = new StoreCircuitBreaker(systemClock);
  gate.recordFailure();
  const waiting = gate.admit();
  expect(waiting).not.toBeNull();
  await vi.advanceTimersByTimeAsync(defaults.storeRetryMs);
  await waiting;
  expect(gate.admit()).toBeNull();
  const others = gate.admit();
  expect(others).not.toBeNull();
  gate.recordSuccess();
  await others;
  expect([gate.admit(), gate.admit()]).toEqual([null, null]);
});

test("supervisors that lost the same server do not retry at the same time", () => {
  const pauses = Array.from({ length: 100 }, () => systemClock.jitter(1_000));
  expect(new Set(pauses).size).toBeGreaterThan(50);
  for (const pause of pauses) expect(Math.abs(pause - 750)).toBeLessThanOrEqual(250);
});

test("the pause grows with each failure and is reset by a success", async () => {
  const gate = new StoreCircuitBreaker({ ...systemClock, jitter: (ms) => ms });
  const waits: number[] = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    gate.recordFailure();
    const began = performance.now();
    const waiting = gate.admit();
    await vi.advanceTimersToNextTimerAsync();
    await waiting;
    waits.push(performance.now() - began);
    expect(gate.admit()).toBeNull();
  }
  expect(waits[0]).toBe(defaults.storeRetryMs);
  expect(waits[1]).toBe(2 * defaults.storeRetryMs);
  expect(waits.at(-1)).toBe(defaults.storeRetryMaxMs);
  gate.recordSuccess();
  gate.recordFailure();
  const waiting = gate.admit();
  await vi.advanceTimersByTimeAsync(defaults.storeRetryMs);
  await waiting;
});

test("a hundred runs try a locked store once per pause", async () => {
  const world = fakeSupervisor();
  const runs = await Promise.all(Array.from({ length: 100 }, () => spawnFakeRun(world)));
  let attempts = 0;
  world.store.failing = new Error("database is locked");
  world.store.beforeWrite = () => attempts++;
  for (const run of runs) await run.cancel();
  for (const anchor of world.host.anchors.values()) {
    expect(anchor.stops).toHaveLength(1);
    anchor.exit();
  }
  attempts = 0;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(attempts).toBeLessThan(30);
  world.store.failing = null;
  await vi.advanceTimersByTimeAsync(defaults.storeRetryMaxMs);
  const records = await Promise.all(runs.map((run) => run.wait()));
  expect(records.every(({ exit }) => exit?.reason === "manual-cancel")).toBe(true);
});

test("a run that is detached while it waits for the store does not block the others", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const robbed = await spawnFakeRun(world);
  const other = await spawnFakeRun(world);
  const [one, two] = [...host.anchors.values()];
  store.failing = new Error("database is locked");
  one?.emit({ type: "stopping", stop: { reason: "manual-cancel", actor: "", requestId: "" } });
  await vi.advanceTimersByTimeAsync(1);
  one?.emit({ type: "refused", code: "stale-epoch", message: "", epoch: 7 });
  expect(world.supervisor.run(robbed.runId)).toBeNull();
  store.failing = null;
  await vi.advanceTimersByTimeAsync(defaults.storeRetryMaxMs);
  two?.exit();
  await vi.advanceTimersByTimeAsync(defaults.storeRetryMaxMs);
  expect(store.runs.get(other.runId)?.state).toBe("exited");
});
