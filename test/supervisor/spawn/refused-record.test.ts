import { expect, test } from "vitest";
import { RunExists, StateUnusable } from "../../../src/errors.js";
import { fakeSupervisor, spawnFakeRun } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** As an anchor does: a stop before GO is an end without execution. */
function endOnStop(world: ReturnType<typeof fakeSupervisor>): void {
  world.host.prepare = (anchor) => {
    const link = anchor.links[0] ?? expect.fail("no link");
    link.stop = () => anchor.exit({ executed: false, reason: "spawn-error", leader: null });
  };
}

test("no GO and no record when the commit is refused", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  endOnStop(world);
  store.failing = new Error("disk full");
  await expect(spawnFakeRun(world)).rejects.toThrow("disk full");
  const { runId } = host.last;
  await waitFor(() => host.discarded.includes(runId));
  expect(host.last.goCount).toBe(0);
  expect(store.runs.get(runId)).toBeUndefined();
  expect(world.supervisor.run(runId)).toBeNull();
});

test("no GO when the commit is uncertain, and its record gets an end", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  endOnStop(world);
  const insertRun = store.insertRun.bind(store);
  store.insertRun = async (...run) => {
    await insertRun(...run);
    throw new StateUnusable("/store", "commit may or may not have happened");
  };
  await expect(spawnFakeRun(world)).rejects.toThrow("may or may not");
  const { runId } = host.last;
  await waitFor(() => store.runs.get(runId)?.state === "exited");
  expect(host.last.goCount).toBe(0);
  const record = store.runs.get(runId);
  expect(record?.exit).toMatchObject({ reason: "spawn-error" });
  expect(record?.exit?.detail).toContain("could not be committed");
  expect(record?.startedAt).toBeNull();
});

test("no GO when the commit is uncertain and the store does not answer: the run is left to reconciliation", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  endOnStop(world);
  const insertRun = store.insertRun.bind(store);
  const getRun = store.getRun.bind(store);
  const away = async (): Promise<never> => {
    throw new StateUnusable("/store", "the store is away");
  };
  store.insertRun = async (...run) => {
    await insertRun(...run);
    store.getRun = away;
    return away();
  };
  await expect(spawnFakeRun(world)).rejects.toThrow("the store is away");
  const { runId } = host.last;
  await waitFor(() => supervisor.run(runId) === null);
  expect(host.last.goCount).toBe(0);
  expect(host.discarded).toEqual([]);
  store.getRun = getRun;
  host.last.answers = false;
  const exit = host.last.exitFacts({ executed: false, reason: "spawn-error", leader: null });
  host.left.set(runId, { exit, leader: null, firstStop: null, swept: null });
  await supervisor.reconcile();
  expect(store.runs.get(runId)).toMatchObject({ state: "exited", exit: { reason: "spawn-error" } });
});

test("a run id of this supervisor is refused before anything is started", async () => {
  const world = fakeSupervisor();
  const { runId } = await spawnFakeRun(world);
  await expect(spawnFakeRun(world, { runId })).rejects.toThrow(RunExists);
  expect(world.host.specs).toHaveLength(1);
});

test("a run id with a record is refused, and nothing is executed or removed from that run", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  endOnStop(world);
  const runId = "run_0123456789ab";
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  store.runs.set(runId, { ...record, runId, leaseId: "of another" });
  await expect(spawnFakeRun(world, { runId })).rejects.toThrow(RunExists);
  await waitFor(() => host.discarded.includes(runId));
  expect(host.last.goCount).toBe(0);
  expect(store.runs.get(runId)?.leaseId).toBe("of another");
});
