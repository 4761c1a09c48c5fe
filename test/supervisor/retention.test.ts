import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunAddress } from "../../src/anchor/host-interface.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import type { Supervisor } from "../../src/supervisor/api.js";
import { systemClock } from "../../src/async/clock.js";
import { createSupervisor } from "../../src/supervisor/supervisor.js";
import { newRunEvent, EXITED, newRun } from "../support/store/run-samples.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { FakeHost } from "../support/supervisor/fake-host.js";

const DAY = 24 * 3_600_000;
/** More than one page of records. */
const MANY = 220;

/** A host with run directories of given sizes. */
class SizedDirectories extends FakeHost {
  readonly directories = new Map<string, { readonly instanceId: string; readonly bytes: number }>();

  override async listRunIds(instanceId?: string): Promise<readonly string[]> {
    return [...this.directories].flatMap(([runId, directory]) =>
      directory.instanceId === instanceId ? [runId] : [],
    );
  }

  override async directorySize(run?: RunAddress): Promise<number> {
    return this.directories.get(run?.runId ?? "")?.bytes ?? 0;
  }

  override async removeRunDirectory({ instanceId, runId }: RunAddress): Promise<void> {
    if (this.directories.get(runId)?.instanceId === instanceId) this.directories.delete(runId);
    await super.removeRunDirectory({ instanceId, runId });
  }
}

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let store: Store;
let host: SizedDirectories;
let supervisor: Supervisor;
const now = Date.now();

beforeEach(async () => {
  directory = await temporaryDirectory();
  store = await openSqliteStore({ path: join(directory.path, "store.sqlite") });
  host = new SizedDirectories();
  host.locals = [
    { instanceId: "in_test", alive: true, launched: true },
    { instanceId: "in_dead", alive: false, launched: false },
    { instanceId: "in_other", alive: true, launched: true },
  ];
  const clock = { ...systemClock, wall: () => now };
  supervisor = createSupervisor({ store, host, clock, instanceId: "in_test", home: "/nowhere" });
});
afterEach(async () => {
  await supervisor.close();
  await directory[Symbol.asyncDispose]();
});

/** A run that ended so many days ago, with a directory of so many bytes. */
async function ended(
  runId: string,
  daysAgo: number,
  { instanceId = "in_dead", bytes = 0 }: { readonly instanceId?: string; readonly bytes?: number } = {},
): Promise<void> {
  const at = now - daysAgo * DAY;
  const run = newRun({ runId, originInstanceId: instanceId, createdAt: at });
  await store.saveRun(await store.insertRun(run, 0, [newRunEvent(runId, 1)]), { ...EXITED, at });
  if (bytes > 0) host.directories.set(runId, { instanceId, bytes });
}

async function known(): Promise<string[]> {
  return (await store.listRuns({})).map(({ runId }) => runId).toSorted();
}

describe("retention", () => {
  test("deletes old ended runs with events and directory, and keeps open runs", async () => {
    await ended("run_old", 8, { bytes: 1 });
    await ended("run_new", 6, { bytes: 1 });
    await store.insertRun(newRun({ runId: "run_alive", createdAt: 0 }), 0, [newRunEvent("run_alive", 1)]);
    await ended("run_today", 0);
    expect(await supervisor.retain()).toEqual({ records: 1, outputs: 0 });
    expect(await known()).toEqual(["run_alive", "run_new", "run_today"]);
    expect([...host.directories.keys()]).toEqual(["run_new"]);
    expect(await store.listEvents({ runId: "run_old" })).toEqual([]);
    expect(await store.listEvents({ runId: "run_alive" })).toHaveLength(1);
    expect(await supervisor.retain()).toEqual({ records: 0, outputs: 0 });
  });

  test("deletes the oldest ended runs beyond the limit", async () => {
    for (let at = 0; at < MANY; at++) await ended(`run_${at}`, at / 1_000);
    expect(await supervisor.retain({ endedKept: 3 })).toEqual({ records: MANY - 3, outputs: 0 });
    expect(await known()).toEqual(["run_0", "run_1", "run_2"]);
    expect(await supervisor.retain({ endedKept: 0 })).toEqual({ records: 3, outputs: 0 });
  });

  test("skips runs of other live instances and deletes the rest", async () => {
    for (let at = 0; at < MANY; at++) await ended(`run_other${at}`, 30, { instanceId: "in_other" });
    await ended("run_old", 8);
    await ended("run_mine", 9, { instanceId: "in_test" });
    await ended("run_today", 0);
    expect(await supervisor.retain()).toEqual({ records: 2, outputs: 0 });
    expect(await known()).toHaveLength(MANY + 1);
    expect(host.discarded.toSorted()).toEqual(["run_mine", "run_old"]);
    // The limit does not count runs of other instances.
    expect(await supervisor.retain({ endedKept: 1 })).toEqual({ records: 0, outputs: 0 });
  });

  test("removes output beyond the quota, oldest first, and keeps the records", async () => {
    await ended("run_1", 3, { bytes: 400 });
    await ended("run_2", 2, { bytes: 400, instanceId: "in_test" });
    await ended("run_3", 1, { bytes: 400 });
    await ended("run_4", 4, { bytes: 9_000, instanceId: "in_other" });
    await store.insertRun(newRun({ runId: "run_alive" }), 0);
    host.directories.set("run_alive", { instanceId: "in_dead", bytes: 300 });
    expect(await supervisor.retain({ outputKeptBytes: 1_100 })).toEqual({ records: 0, outputs: 1 });
    expect([...host.directories.keys()]).toEqual(["run_2", "run_3", "run_4", "run_alive"]);
    expect(await supervisor.retain({ outputKeptBytes: 0 })).toEqual({ records: 0, outputs: 2 });
    expect([...host.directories.keys()]).toEqual(["run_4", "run_alive"]);
    expect(await known()).toHaveLength(5);
  });

  test("deletes nothing because the clock was set ahead", async () => {
    // As seen by a clock that is a year ahead.
    await ended("run_1", 365, { bytes: 1 });
    await ended("run_2", 371, { bytes: 1 });
    expect(await supervisor.retain()).toEqual({ records: 0, outputs: 0 });
    await ended("run_3", 373, { bytes: 1 });
    expect(await supervisor.retain()).toEqual({ records: 1, outputs: 0 });
    expect(await known()).toEqual(["run_1", "run_2"]);
  });

  test("leaves a record, never a directory alone, if it is interrupted", async () => {
    await ended("run_old", 8, { bytes: 1 });
    await ended("run_today", 0);
    const deleteRuns = store.deleteRuns.bind(store);
    store.deleteRuns = () => Promise.reject(new Error("the disk is full"));
    await expect(supervisor.retain()).rejects.toThrow("the disk is full");
    expect([...host.directories.keys()]).toEqual([]);
    expect(await known()).toEqual(["run_old", "run_today"]);
    store.deleteRuns = deleteRuns;
    expect(await supervisor.retain()).toEqual({ records: 1, outputs: 0 });
  });
});
