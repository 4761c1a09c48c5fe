import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { StoreAway } from "../../src/errors.js";
import type { Supervisor } from "../../src/supervisor/api.js";
import { systemClock } from "../../src/async/clock.js";
import { createSupervisor } from "../../src/supervisor/supervisor.js";
import type { Store } from "../../src/store/store.js";
import { postgresForSuite, whyNoPostgres, type PostgresDatabase } from "../support/store/postgres-server.js";
import { EXITED, newRun } from "../support/store/run-samples.js";
import { FakeHost } from "../support/supervisor/fake-host.js";

describe.skipIf(whyNoPostgres !== null)("each of many hosts on one database", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let store: Store;
  let host: FakeHost;
  let supervisor: Supervisor;
  let ahead: number;
  beforeEach(async () => {
    database = await server.createDatabase();
    store = await database.open();
    host = new FakeHost();
    ahead = 0;
    supervisor = createSupervisor({
      store: await database.open(),
      host,
      clock: { ...systemClock, now: () => systemClock.now() + ahead },
      instanceId: "in_here",
      home: "/nowhere",
      stateId: "here",
      onProblem: () => {},
    });
    onTestFinished(async () => {
      await supervisor.close();
      await store[Symbol.asyncDispose]();
    });
  });

  test("deletes its own ended runs, whatever the number and age of others' runs", async () => {
    const ended = async (stateId: string, runId: string, at: number): Promise<void> => {
      const run = newRun({ runId, stateId, originInstanceId: `in_${stateId}`, createdAt: at });
      await store.saveRun(await store.insertRun(run, 1_000), { ...EXITED, at });
    };
    for (const at of [1, 2, 3]) await ended("elsewhere", `run_elsewhere${at}`, at);
    for (const at of [4, 5]) await ended("here", `run_here${at}`, at);
    // A clock that is ahead affects only the runs of its own host.
    await ended("elsewhere", "run_ahead", Date.now());
    expect(await supervisor.retain({ endedKept: 2 })).toEqual({ records: 0, outputs: 0 });
    expect(await supervisor.retain({ endedKept: 1 })).toEqual({ records: 1, outputs: 0 });
    expect(host.discarded).toEqual(["run_here4"]);
    expect(await store.countEndedRuns({ ofState: { stateId: "elsewhere", instanceIds: [] } })).toBe(4);
  });

  test("does not count the time of a database outage as a host's silence", async () => {
    await store.insertRun(
      newRun({ hostId: "elsewhere", ownerInstanceId: "in_elsewhere" }),
      -defaults.hostLostMs,
    );
    const look = async (): Promise<string | undefined> => (await supervisor.reconcile()).decisions[0]?.action;
    expect(await look()).toBe("leave");
    await server.kill();
    await expect(look()).rejects.toBeInstanceOf(StoreAway);
    await server.start();
    ahead = defaults.hostLostMs;
    // The database is back, so the owner could renew its lease now.
    expect(await look()).toBe("leave");
    ahead += defaults.hostLostMs;
    expect(await look()).toBe("lose");
  });

  test.each([
    ["host", { hostId: "elsewhere", bootId: "another" }],
    ["state directory", { ...new FakeHost().machine, stateId: "another" }],
  ])(
    "says nothing of expired leases of another %s for a day, and gives them up after one more",
    async (_, place) => {
      const elsewhere = { ...place, ownerInstanceId: "in_elsewhere" };
      await store.insertRun(newRun(elsewhere), -1);
      const { runId } = await store.insertRun(newRun(elsewhere), -defaults.hostLostMs);
      const left = [{ runId, row: "elsewhere", action: "leave" }];
      expect((await supervisor.reconcile()).decisions).toMatchObject(left);
      // Such runs are rarely asked for, and are not forgotten meanwhile.
      expect((await supervisor.reconcile()).decisions).toEqual([]);
      expect((await supervisor.reconcile({ runIds: [runId] })).decisions).toMatchObject(left);
      ahead = defaults.hostLostMs - defaults.silentPollMs;
      // Its owner may only now have the database back: that it is silent is what has to be seen, not what is written.
      expect((await supervisor.reconcile()).decisions).toMatchObject(left);
      ahead = defaults.hostLostMs;
      expect((await supervisor.reconcile()).decisions).toMatchObject([{ ...left[0], action: "lose" }]);
      expect(await store.getRun(runId)).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
      expect(new Set((await store.listEvents({})).map((event) => event.runId))).toEqual(new Set([runId]));
    },
  );
});
