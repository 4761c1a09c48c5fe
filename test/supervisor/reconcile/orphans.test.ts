import { expect, test } from "vitest";
import type { CgroupRef } from "../../../src/anchor/host-interface.js";
import { AnchorUnusable } from "../../../src/errors.js";
import type { FakeHost } from "../../support/supervisor/fake-host.js";
import {
  fakeSupervisor,
  spawnFakeRun,
  type FakeSupervisor,
} from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** The store is replaced by an empty one while a run goes on. */
async function forgotten(): Promise<FakeSupervisor & { readonly runId: string }> {
  const first = fakeSupervisor();
  const { runId } = await spawnFakeRun(first);
  first.host.last.disconnect();
  await first.supervisor.close({ leaveRuns: true });
  return { ...fakeSupervisor({ host: first.host }), runId };
}

/** The run's cgroup, populated until it is reaped. */
function peopled({ host, runId }: { host: FakeHost; runId: string }): CgroupRef {
  const boundary = { path: `/holdfast-in_test/runs/${runId}`, inode: "77" };
  Object.assign(host, { listRunCgroups: async () => [{ runId, ...boundary }] });
  host.cgroups.set(boundary.path, "populated");
  const reap = host.reap.bind(host);
  host.reap = async (request) => {
    host.cgroups.set(boundary.path, "empty");
    return reap(request);
  };
  return boundary;
}

test("a directory without a record whose anchor is alive gets a record, and its run continues", async () => {
  const { supervisor, store, runId } = await forgotten();
  const { runs } = await supervisor.reconcile();
  expect(runs).toMatchObject([{ runId }]);
  await waitFor(() => store.runs.get(runId)?.state !== "starting");
  expect(store.runs.get(runId)).toMatchObject({ state: "running", exit: null });
});

test("an anchor that does not answer for a moment while its run gets a record keeps it", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  const attach = host.attach.bind(host);
  let refusals = 1;
  host.attach = async (run, epoch) => {
    if (epoch > 0 && refusals-- > 0) throw new AnchorUnusable("sock", "it did not answer in time");
    return attach(run, epoch);
  };
  const { runs } = await supervisor.reconcile();
  expect(runs).toMatchObject([{ runId }]);
  await waitFor(() => store.runs.get(runId)?.state !== "starting");
  expect(store.runs.get(runId)).toMatchObject({ state: "running", exit: null, root: { pid: 1010 } });
  expect(host.last.stops).toEqual([]);
});

test("processes in the cgroup of a directory without a record and anchor are killed", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  host.last.answers = false;
  const boundary = peopled({ host, runId });
  await supervisor.reconcile();
  expect(host.reaped).toMatchObject([{ root: null, cgroup: boundary }]);
  expect(store.runs.get(runId)).toMatchObject({
    state: "exited",
    emptiness: "proven",
    exit: { reason: "lost" },
  });
});

test("a directory without a record whose anchor does not answer is not touched", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  peopled({ host, runId });
  const attach = host.attach.bind(host);
  host.attach = () => Promise.reject(new AnchorUnusable("sock", "it did not answer in time"));
  await supervisor.reconcile();
  expect(host.reaped).toEqual([]);
  expect(store.runs.has(runId)).toBe(false);
  host.attach = attach;
  const { runs } = await supervisor.reconcile();
  expect(runs).toMatchObject([{ runId }]);
});

test("a cgroup that could not be emptied is tried again and does not count as never executed", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  host.anchors.clear();
  const boundary = peopled({ host, runId });
  const reap = host.reap.bind(host);
  host.reap = () => Promise.reject(new AnchorUnusable("anchor", "no more processes"));
  await supervisor.reconcile().catch(() => undefined);
  expect(store.runs.get(runId)).toMatchObject({ state: "starting", boundary: { cgroupInode: "77" } });
  host.reap = reap;
  await supervisor.reconcile();
  expect(host.reaped).toMatchObject([{ root: null, cgroup: boundary }]);
  expect(store.runs.get(runId)).toMatchObject({ state: "exited", exit: { reason: "lost" } });
});

test("a directory without a record is left to the process that replaces this one during the pass", async () => {
  const first = await forgotten();
  const { store, host } = first;
  host.last.answers = false;
  let state: "held" | "taken" = "held";
  const { supervisor } = fakeSupervisor({ store, host, locks: { check: async () => state } });
  const attach = host.attach.bind(host);
  host.attach = async (...asked) => {
    state = "taken";
    return attach(...asked);
  };
  await supervisor.reconcile().catch(() => undefined);
  expect(store.runs.size).toBe(0);
});

test("a directory that its owner removes after it got a record counts with the exit file that it had", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  const exit = host.last.exitFacts({ executed: false, reason: "spawn-error", leader: null });
  host.last.answers = false;
  host.left.set(runId, { exit, leader: null, firstStop: null, swept: null });
  const insertRun = store.insertRun.bind(store);
  store.insertRun = async (...asked) => {
    const lease = await insertRun(...asked);
    host.left.delete(runId);
    return lease;
  };
  await supervisor.reconcile();
  expect(store.runs.get(runId)).toMatchObject({ exit: { reason: "spawn-error" }, emptiness: "proven" });
});

test("a run that another supervisor is deleting does not come back", async () => {
  const { supervisor, store, host, runId } = await forgotten();
  host.last.answers = false;
  const getRun = store.getRun.bind(store);
  // Listed, then removed with its record.
  store.getRun = async (...asked) => {
    host.anchors.delete(runId);
    return getRun(...asked);
  };
  await supervisor.reconcile();
  expect(store.runs.size).toBe(0);
});

/** A run whose record was ended by another supervisor, with a live anchor. */
async function endedElsewhere(): Promise<FakeSupervisor & { readonly runId: string }> {
  const world = fakeSupervisor();
  const { store, host } = world;
  const { runId } = await spawnFakeRun(world);
  const record = store.runs.get(runId) ?? expect.fail("no record");
  const boundary = { cgroup: `/holdfast-in_test/runs/${runId}`, cgroupInode: "77", note: null };
  store.runs.set(runId, { ...record, state: "exited", boundary, endedAt: 1 });
  host.last.disconnect();
  await world.supervisor.close({ leaveRuns: true });
  store.failing = null;
  host.last.stops.length = 0;
  return { ...fakeSupervisor({ store, host }), runId };
}

test("a silent anchor of an ended run is stopped when it answers", async () => {
  const { supervisor, host } = await endedElsewhere();
  const attach = host.attach.bind(host);
  host.attach = () => Promise.reject(new AnchorUnusable("sock", "it did not answer in time"));
  await supervisor.reconcile();
  host.attach = attach;
  await supervisor.reconcile();
  expect(host.last.stops).toMatchObject([{ reason: "lost" }]);
});

test("the check of a cgroup leaves no connection open", async () => {
  const { supervisor, host, runId } = await endedElsewhere();
  peopled({ host, runId });
  await supervisor.reconcile();
  await supervisor.reconcile();
  expect(host.last.links).toEqual([]);
});
