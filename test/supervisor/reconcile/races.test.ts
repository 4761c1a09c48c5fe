import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { systemClock } from "../../../src/async/clock.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

test("a record that is being inserted is not reconciled", async () => {
  const world = fakeSupervisor();
  const { store, supervisor } = world;
  const insertRun = store.insertRun.bind(store);
  let answer = (): void => undefined;
  // Committed, but its answer is still on its way.
  store.insertRun = async (...run) => {
    const lease = await insertRun(...run);
    await new Promise<void>((resolve) => (answer = resolve));
    return lease;
  };
  const starting = spawnFakeRun(world);
  await nextTurn();
  expect((await supervisor.reconcile()).decisions).toEqual([]);
  answer();
  expect((await starting).state).toBe("running");
  expect([...store.runs.values()]).toMatchObject([{ state: "running", leaseEpoch: 1 }]);
});

test("the directory of a dead instance is kept while it owns a record", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  store.runs.set("run_theirs", {
    ...record,
    runId: "run_theirs",
    ownerInstanceId: "in_dead",
    leaseExpiresAt: 50,
    anchor: null,
    root: null,
  });
  host.locals = [...host.locals, { instanceId: "in_dead", alive: false, launched: false }];
  host.listRunIds = async () => [];
  const removed: string[] = [];
  Object.assign(host, { removeInstance: async (instanceId: string) => removed.push(instanceId) > 0 });
  await supervisor.reconcile();
  expect(removed).toEqual([]);
  store.time = 60;
  await supervisor.reconcile();
  expect(store.runs.get("run_theirs")?.ownerInstanceId).toBe("in_test");
  expect(removed).toEqual(["in_dead"]);
});

test("a run that must end with its owner is stopped after a take-over, even after another restart", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const run = await spawnFakeRun(world, { onOrphan: "terminate" });
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  // An earlier process of in_heir had claimed it, and died before it could say stop.
  store.runs.set(run.runId, { ...record, ownerInstanceId: "in_heir", leaseEpoch: 2 });
  host.locals = [{ instanceId: "in_heir", alive: true, launched: false }];
  host.last.disconnect();
  const heir = fakeSupervisor({ store, host, instanceId: "in_heir" });
  const { decisions } = await heir.supervisor.reconcile();
  expect(decisions).toMatchObject([{ row: "anchor-alive", action: "terminate" }]);
  expect(host.last.stops).toMatchObject([{ reason: "owner-lost" }]);
});

test.for([
  ["with a live anchor", true],
  ["whose processes are gone", false],
] as const)(
  "the loser of a race for a run %s reports the new owner, not its own plan",
  async ([, answers]) => {
    const world = fakeSupervisor();
    const { store, host } = world;
    const run = await spawnFakeRun(world, { onOrphan: "terminate" });
    const record = store.runs.get(run.runId) ?? expect.fail("no record");
    store.runs.set(run.runId, { ...record, ownerInstanceId: "in_dead", leaseEpoch: 2, leaseExpiresAt: -1 });
    host.locals = [
      { instanceId: "in_heir", alive: true, launched: false },
      { instanceId: "in_dead", alive: false, launched: false },
    ];
    host.last.disconnect();
    await waitFor(() => world.supervisor.run(run.runId) === null);
    host.last.answers = answers;
    const heir = fakeSupervisor({ store, host, instanceId: "in_heir" });
    // Between the look and the claim another supervisor is faster.
    store.beforeWrite = (what) => {
      const now = store.runs.get(run.runId);
      if ((what === "claim" || what === "exited") && now !== undefined)
        store.runs.set(run.runId, { ...now, ownerInstanceId: "in_faster", leaseEpoch: 9 });
    };
    const { decisions, runs } = await heir.supervisor.reconcile();
    expect(runs).toEqual([]);
    expect(decisions).toMatchObject([{ runId: run.runId, action: "leave" }]);
    expect(decisions[0]?.why).toContain("took it over first");
    expect(host.last.stops).toEqual([]);
  },
);

test("a run of a machine without a sign of life for a day is ended on record without a signal", async () => {
  let now = 0;
  const world = fakeSupervisor({ clock: { ...systemClock, now: () => now } });
  const { store, host, supervisor } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  const far = { ...record, runId: "run_far", ownerInstanceId: "in_far", originInstanceId: "in_far" };
  store.runs.set("run_far", { ...far, hostId: "far away", leaseExpiresAt: 10 });
  const rows = async (): Promise<unknown> =>
    (await supervisor.reconcile()).decisions.map(({ row, action }) => ({ row, action }));
  expect(await rows()).toEqual([]);
  now += defaults.hostLostMs;
  store.time = 20;
  expect(await rows()).toEqual([{ row: "elsewhere", action: "leave" }]);
  now += defaults.hostLostMs;
  expect(await rows()).toEqual([{ row: "elsewhere", action: "lose" }]);
  expect(store.runs.get("run_far")).toMatchObject({ state: "exited", emptiness: "unproven" });
  expect(host.reaped).toEqual([]);
});

test("a run whose directory cannot be read is left alone and does not delay others", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const [unreadable, other] = [await spawnFakeRun(world), await spawnFakeRun(world)];
  for (const { runId } of [unreadable, other]) {
    const record = store.runs.get(runId) ?? expect.fail("no record");
    store.runs.set(runId, { ...record, ownerInstanceId: "in_dead", originInstanceId: "in_dead" });
    host.anchors.get(runId)?.disconnect();
  }
  store.time = Number.MAX_SAFE_INTEGER;
  host.locals = [
    { instanceId: "in_closed", alive: false, launched: false },
    { instanceId: "in_dead", alive: false, launched: false },
  ];
  const remains = host.readRunFiles.bind(host);
  host.readRunFiles = async (run) => {
    if (run.runId === unreadable.runId) throw new Error("EACCES");
    return remains(run);
  };
  const runIds = host.listRunIds.bind(host);
  Object.assign(host, {
    listRunIds: async (instanceId: string) => {
      if (instanceId === "in_closed") throw new Error("EACCES");
      return runIds();
    },
  });
  const heir = fakeSupervisor({ store, host, instanceId: "in_heir" });
  const { decisions, runs } = await heir.supervisor.reconcile();
  expect(decisions).toContainEqual(
    expect.objectContaining({ runId: unreadable.runId, row: "unseen", action: "leave" }),
  );
  expect(runs).toMatchObject([{ runId: other.runId }]);
  expect(store.runs.get(unreadable.runId)).toMatchObject({ state: "running", ownerInstanceId: "in_dead" });
  expect(heir.problems.map(({ message }) => message).join()).toContain("in_closed");
});

test("a run that is deleted during the check of its directory does not come back", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  // Its directory was listed; by the time its record is asked for, both are gone.
  let listed = 0;
  host.listRunIds = async () => (listed++ === 0 ? ["run_old"] : []);
  await supervisor.reconcile();
  expect([...store.runs.keys()]).toEqual([]);
});

for (const known of [true, false])
  test(`processes in the cgroup of an ended run are killed, ${known ? "with" : "without"} the cgroup on record`, async () => {
    const world = fakeSupervisor();
    const { store, host, supervisor } = world;
    const run = await spawnFakeRun(world);
    host.last.exit();
    const record = await run.wait();
    const boundary = { path: "/cgroup/a", inode: "5" };
    store.runs.set(run.runId, {
      ...record,
      boundary: known ? { cgroup: boundary.path, cgroupInode: boundary.inode, note: null } : null,
    });
    host.cgroups.set(boundary.path, "populated");
    Object.assign(host, { listRunCgroups: async () => [{ ...boundary, runId: run.runId }] });
    await supervisor.reconcile();
    await supervisor.reconcile();
    expect(host.reaped).toMatchObject([{ root: null, cgroup: boundary }]);
  });

test("a silent anchor of an ended run is tried again in the next pass", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  host.last.emit({ type: "refused", code: "stale-epoch", message: "", epoch: 7 });
  store.runs.set(run.runId, { ...record, state: "exited" });
  const attach = host.attach.bind(host);
  host.attach = async () => Promise.reject(new Error("it does not answer"));
  await supervisor.reconcile();
  host.attach = attach;
  await supervisor.reconcile();
  expect(host.last.stops).toMatchObject([{ reason: "lost" }]);
});

test("a run that must be stopped on take-over is stopped when its anchor answers later", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const run = await spawnFakeRun(world, { onOrphan: "terminate" });
  // Its owner is gone.
  host.last.emit({ type: "refused", code: "stale-epoch", message: "", epoch: 2 });
  host.locals = [{ instanceId: "in_test", alive: false, launched: false }];
  store.time = defaults.leaseMs + 1;
  const attach = host.attach.bind(host);
  // It falls silent between the two questions.
  host.attach = async (address, epoch) => {
    if (epoch === 0) return attach(address, epoch);
    host.attach = attach;
    throw new Error("it does not answer");
  };
  const heir = fakeSupervisor({ store, host, instanceId: "in_heir" });
  expect((await heir.supervisor.reconcile()).runs).toMatchObject([{ runId: run.runId }]);
  await waitFor(() => host.last.stops.length > 0);
  expect(host.last.stops).toMatchObject([{ reason: "owner-lost" }]);
});

test("a command that passes the gate between evidence and claim does not count as never executed", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  host.last.emit({ type: "refused", code: "stale-epoch", message: "", epoch: 2 });
  store.runs.set(run.runId, { ...record, state: "starting", anchor: null, root: null, startedAt: null });
  host.locals = [{ instanceId: "in_test", alive: false, launched: false }];
  store.time = defaults.leaseMs + 1;
  host.last.answers = false;
  store.beforeWrite = (what) => {
    if (what !== "claim") return;
    host.last.answers = true;
    store.runs.set(run.runId, record);
    store.beforeWrite = () => undefined;
  };
  const heir = fakeSupervisor({ store, host, instanceId: "in_heir" });
  expect((await heir.supervisor.reconcile()).runs).toMatchObject([{ runId: run.runId }]);
  await waitFor(() => host.last.links.length > 0);
  expect(store.runs.get(run.runId)).toMatchObject({ state: "running", ownerInstanceId: "in_heir" });
});

test("an orphan whose finder died does not count as never executed", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  const found = { ...record, runId: "run_found", leaseId: "", anchor: null, root: null };
  store.runs.set("run_found", { ...found, state: "starting", startedAt: null });
  host.listRunIds = async () => ["run_found"];
  await supervisor.reconcile();
  expect(store.runs.get("run_found")).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
});

test("a failed search for environment markers proves nothing: the run is tried again", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const run = await spawnFakeRun(world);
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  host.last.disconnect();
  await world.supervisor.close({ leaveRuns: true });
  store.failing = null;
  const boundary = { cgroup: `/holdfast-in_test/runs/${run.runId}`, cgroupInode: "77", note: null };
  store.runs.set(run.runId, { ...record, boundary });
  host.anchors.clear();
  host.locals = [{ instanceId: "in_test", alive: false, launched: false }];
  const find = host.findMarkedLeases.bind(host);
  host.findMarkedLeases = () => Promise.reject(new Error("no more processes"));
  const { supervisor } = fakeSupervisor({ store, host });
  await supervisor.reconcile();
  expect(store.runs.get(run.runId)).toMatchObject({ exit: null });
  host.findMarkedLeases = find;
  await supervisor.reconcile();
  expect(store.runs.get(run.runId)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
});
