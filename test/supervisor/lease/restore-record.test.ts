import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LeaseLost, StoreAway } from "../../../src/errors.js";
import type { RunRecord } from "../../../src/model/run.js";
import { FileRunCopy } from "../../../src/store/local-copy/run-copy.js";
import { attachKeepalive } from "../../../src/supervisor/lease/acquire.js";
import {
  fakeSupervisor,
  type FakeSupervisor,
  spawnFakeRun,
} from "../../support/supervisor/fake-supervisor.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";
import { waitFor } from "../../support/wait-for.js";

async function ledgeredWorld(): Promise<
  FakeSupervisor & { readonly ledger: FileRunCopy; readonly path: string }
> {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const path = join(directory.path, "ledger");
  const localCopy = new FileRunCopy(path);
  return { ...fakeSupervisor({ localCopy }), ledger: localCopy, path };
}

const rows = ({ store }: FakeSupervisor, type: string): string[] =>
  store.events.flatMap((event) => (event.type === type ? [event.runId] : []));

/** How the store changes the record of a run, and whether that counts as a roll-back. */
const pasts: readonly [string, (record: RunRecord) => RunRecord | null, boolean][] = [
  ["has no record of it", () => null, true],
  ["has an earlier epoch of this owner", (record) => ({ ...record, leaseEpoch: 0 }), true],
  [
    "has an earlier epoch of another owner",
    (record) => ({ ...record, leaseEpoch: 0, ownerInstanceId: "in_other" }),
    true,
  ],
  [
    "has a later epoch of another owner",
    (r) => ({ ...r, leaseEpoch: 9, ownerInstanceId: "in_other" }),
    false,
  ],
];

for (const [what, past, forgotten] of pasts)
  test(`a run whose store ${what} ${forgotten ? "is restored and continues" : "is detached: it was taken over"}`, async () => {
    const world = await ledgeredWorld();
    const { store, host } = world;
    const run = await spawnFakeRun(world);
    await waitFor(() => store.runs.get(run.runId)?.state === "running");
    const record = store.runs.get(run.runId) ?? expect.fail("no record");
    const before = past(record);
    if (before === null) store.runs.delete(run.runId);
    else store.runs.set(run.runId, before);
    host.last.exit({ leader: { code: 5, signal: null } });
    if (!forgotten) {
      await expect(run.wait()).rejects.toBeInstanceOf(LeaseLost);
      expect(store.runs.get(run.runId)).toEqual(before);
      return expect(rows(world, "reconcile")).toEqual([]);
    }
    expect(await run.wait()).toMatchObject({ exit: { reason: "exit", code: 5 }, command: record.command });
    expect(rows(world, "reconcile")).toEqual([run.runId]);
    expect(rows(world, "exit")).toEqual([run.runId]);
  });

test("a full comparison restores the record of an owned run and keeps its connection", async () => {
  const world = await ledgeredWorld();
  const run = await spawnFakeRun(world);
  await waitFor(() => world.store.runs.get(run.runId)?.state === "running");
  world.store.runs.clear();
  await world.supervisor.reconcile();
  expect(world.store.runs.get(run.runId)).toMatchObject({ state: "running", leaseEpoch: 1 });
  expect(world.supervisor.run(run.runId)).not.toBeNull();
});

test("the next supervisor restores an end that the store lost, but not a deleted one", async () => {
  const world = await ledgeredWorld();
  const { store, host, supervisor, path } = world;
  const ended = async (code: number): Promise<string> => {
    const run = await spawnFakeRun(world);
    host.last.exit({ leader: { code, signal: null } });
    host.last.answers = false;
    await run.wait();
    return run.runId;
  };
  const kept = await ended(7);
  const reopened = await ended(8);
  const removed = await ended(9);
  await supervisor.close();
  await store.deleteRuns([removed]);
  await new FileRunCopy(path).deleteEnded([removed]);
  store.failing = null;
  store.runs.delete(kept);
  const record = store.runs.get(reopened) ?? expect.fail("no record");
  store.runs.set(reopened, { ...record, state: "running", exit: null, endedAt: null, emptiness: null });
  store.events.length = 0;

  const next = fakeSupervisor({ store, host, localCopy: new FileRunCopy(path) });
  host.anchors.clear();
  for (let times = 0; times < 2; times += 1) await next.supervisor.reconcile();
  expect(store.runs.get(kept)).toMatchObject({ state: "exited", exit: { code: 7, source: "anchor" } });
  expect(store.runs.get(reopened)).toMatchObject({ state: "exited", exit: { code: 8 } });
  expect(store.runs.has(removed)).toBe(false);
  expect(rows(next, "exit").toSorted()).toEqual([kept, reopened].toSorted());
});

test("a connection lost during a store outage is replaced as the owner, and controls the run after the next claim", async () => {
  const world = await ledgeredWorld();
  const { store, host } = world;
  const run = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(run.runId)?.state === "running");
  store.failing = new StoreAway("", "it is away");
  host.last.disconnect();
  await waitFor(() => host.attached.includes(2));
  // Each time under a higher epoch.
  await waitFor(() => host.attached.includes(3));
  store.failing = null;
  const committed = (): number => store.runs.get(run.runId)?.leaseEpoch ?? 0;
  await waitFor(() => committed() > 3 && host.last.welcome.highestEpoch === committed());
  host.last.exit({ leader: { code: 0, signal: null } });
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
});

test("a run whose anchor had another owner is only observed", async () => {
  const world = await ledgeredWorld();
  const { store, host } = world;
  const run = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(run.runId)?.state === "running");
  store.failing = new StoreAway("", "it is away");
  host.last.welcome = { ...host.last.welcome, highestEpoch: 5 };
  host.last.disconnect();
  await waitFor(() => host.attached.length > 3);
  expect(new Set(host.attached)).toEqual(new Set([0]));
  await run.cancel();
  expect(host.last.stops).toHaveLength(1);
});

test("a run of another live supervisor, with its cgroup, is left alone when the store loses its record", async () => {
  const world = await ledgeredWorld();
  const { store, host, supervisor, path } = world;
  const { runId } = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(runId)?.state === "running");
  host.last.disconnect();
  await supervisor.close({ leaveRuns: true });
  host.locals = [...host.locals, { instanceId: "in_other", alive: true, launched: true }];
  const cgroup = { path: `/holdfast-in_test/runs/${runId}`, inode: "77" };
  Object.assign(host, { listRunCgroups: async () => [{ runId, ...cgroup }] });
  host.cgroups.set(cgroup.path, "populated");
  host.last.answers = false;
  const localCopy = new FileRunCopy(path);
  const told = (await localCopy.get(runId)) ?? expect.fail("it was not kept");
  await localCopy.keep({
    record: { ...told.record, ownerInstanceId: "in_other", leaseEpoch: 2 },
    anchorEpoch: 2,
  });
  store.failing = null;
  store.runs.clear();
  const next = fakeSupervisor({ store, host, localCopy });
  await next.supervisor.reconcile();
  expect(host.reaped).toEqual([]);
  expect(store.runs.has(runId)).toBe(false);
});

test("a claim committed just before a store outage is known to the keepalive link", async () => {
  const world = await ledgeredWorld();
  const { store, host, ledger: localCopy, path } = world;
  const run = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(run.runId)?.state === "running");
  const getRun = store.getRun.bind(store);
  store.beforeWrite = (what) => {
    if (what !== "claim") return;
    store.beforeWrite = () => undefined;
    store.getRun = () => Promise.reject(new StoreAway("", "it is away"));
  };
  host.last.disconnect();
  await waitFor(() => host.attached.includes(2));
  store.getRun = getRun;
  const told = { record: { leaseEpoch: 2, ownerInstanceId: "in_test" }, anchorEpoch: 2 };
  expect(await localCopy.get(run.runId)).toMatchObject(told);
  const link = await attachKeepalive(host, new FileRunCopy(path), run.runId);
  expect(link?.welcome.highestEpoch).toBe(3);
});

test("a keepalive link is made even if it cannot be recorded", async () => {
  const world = await ledgeredWorld();
  const { store, host, ledger: localCopy, path } = world;
  const run = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(run.runId)?.state === "running");
  await rm(path, { recursive: true });
  await writeFile(path, "");
  expect(await attachKeepalive(host, localCopy, run.runId)).not.toBeNull();
});

test("an unusable local copy is reported and does not prevent reconciliation", async () => {
  const world = await ledgeredWorld();
  const { store, host, supervisor, path } = world;
  const { runId } = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(runId)?.state === "running");
  host.last.disconnect();
  await supervisor.close({ leaveRuns: true });
  store.failing = null;
  await rm(path, { recursive: true });
  await writeFile(path, "");
  const next = fakeSupervisor({ store, host, localCopy: new FileRunCopy(path) });
  expect((await next.supervisor.reconcile()).runs).toMatchObject([{ runId }]);
  expect(next.problems.map(({ message }) => message)).toEqual([
    expect.stringContaining("cannot be read, so no record is restored"),
    expect.stringContaining("the local copy of its record could not be written"),
  ]);
});

test("a run that was ended elsewhere and deleted does not come back", async () => {
  const world = await ledgeredWorld();
  const { store, host, supervisor, path } = world;
  const { runId } = await spawnFakeRun(world);
  await waitFor(() => store.runs.get(runId)?.state === "running");
  const record = store.runs.get(runId) ?? expect.fail("no record");
  store.runs.set(runId, { ...record, state: "exited", leaseEpoch: 9, endedAt: 1 });
  host.last.disconnect();
  await waitFor(() => supervisor.run(runId) === null);
  // The processes of an ended record are stopped; retention then deletes directory and record.
  host.anchors.clear();
  await store.deleteRuns([runId]);
  await supervisor.close();
  store.failing = null;
  const next = fakeSupervisor({ store, host, localCopy: new FileRunCopy(path) });
  await next.supervisor.reconcile();
  expect(store.runs.has(runId)).toBe(false);
  expect(await new FileRunCopy(path).runIds()).toEqual([]);
});
