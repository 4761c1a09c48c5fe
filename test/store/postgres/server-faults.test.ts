import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LeaseLost } from "../../../src/errors.js";
import type { Store } from "../../../src/store/store.js";
import { LEASE_MS, newRunEvent, EXITED, GATED, newRun, RUNNING } from "../../support/store/run-samples.js";
import {
  storeUnusable,
  postgresForSuite,
  whyNoPostgres,
  type PostgresDatabase,
} from "../../support/store/postgres-server.js";
import { scaled } from "../../support/scale.js";

const order = ["starting", "running", "exited"];

describe.skipIf(whyNoPostgres !== null)("a PostgreSQL server", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let store: Store;
  beforeEach(async () => {
    database = await server.createDatabase();
    store = await database.open();
  });
  afterEach(() => store[Symbol.asyncDispose]());

  test("that is killed under its writers loses no answered write, has no half one, and is used again", async () => {
    const promised = new Map<string, string>();
    const write = async (name: string): Promise<void> => {
      for (let count = 0; ; count += 1) {
        const run = newRun({ runId: `${name}-${count}` });
        const lease = await store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]);
        promised.set(run.runId, "starting");
        await store.saveRun(lease, RUNNING, [newRunEvent(run.runId)]);
        promised.set(run.runId, "running");
        await store.saveRun(lease, EXITED, [newRunEvent(run.runId)]);
        promised.set(run.runId, "exited");
      }
    };
    for (const round of [1, 2]) {
      const writers = ["a", "b", "c", "d"].map((name) => storeUnusable(write(`${round}${name}`)));
      await expect.poll(() => promised.size).toBeGreaterThan(40 * round);
      await server.kill();
      for (const { code } of await Promise.all(writers)) expect(code).toBe("STORE_AWAY");
      expect((await storeUnusable(store.renewLeases("owner-a", LEASE_MS))).message).toContain(
        "cannot be reached",
      );
      await server.start();

      // The same store, without being opened again.
      const records = new Map((await store.listRuns({})).map((record) => [record.runId, record]));
      const events = await store.listEvents({});
      for (const [runId, state] of promised)
        expect(order.indexOf(records.get(runId)?.state ?? "")).toBeGreaterThanOrEqual(order.indexOf(state));
      for (const { runId, state } of records.values())
        expect(events.filter((one) => one.runId === runId)).toHaveLength(order.indexOf(state) + 1);
    }
  });

  test("that refuses to delete old events fails no write", async () => {
    await using small = await database.open({ eventsKept: 4 });
    await database.query(`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'events are kept'; end $$`);
    await database.query(
      "create trigger kept before delete on holdfast.run_events for each row execute function refuse()",
    );
    for (let count = 0; count < 10; count += 1) {
      const run = newRun({ runId: `kept-${count}` });
      const lease = await small.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]);
      expect(await small.saveRun(lease, EXITED, [newRunEvent(run.runId)])).toBe(true);
    }
    expect((await small.listEvents({})).length).toBe(20);
  });

  test("that hangs gets no statement until it answers, and no statement that was not sent is recorded", async () => {
    await using impatient = await database.open({ busyMs: 1_000 });
    await impatient.insertRun(newRun({ runId: "before" }), LEASE_MS);
    server.pause();
    try {
      const first = await storeUnusable(impatient.insertRun(newRun({ runId: "sent" }), LEASE_MS));
      expect(first).toMatchObject({ message: expect.stringContaining("is not known") as string });
      const began = performance.now();
      const second = await storeUnusable(impatient.insertRun(newRun({ runId: "unsent" }), LEASE_MS));
      expect(performance.now() - began).toBeLessThan(scaled(900));
      expect(second).toMatchObject({
        code: "STORE_AWAY",
        message: expect.stringContaining("Nothing was recorded") as string,
      });
    } finally {
      server.resume();
    }
    await expect.poll(() => impatient.getRun("unsent").catch(() => "away"), { timeout: 10_000 }).toBeNull();
  });

  test("that would answer before it has written is made to write first", async () => {
    await database.query(`alter database ${database.name} set synchronous_commit = off`);
    await using careful = await database.open();
    const lease = await careful.insertRun(newRun(), LEASE_MS);
    await careful.saveRun(lease, EXITED, [newRunEvent("told")]);
    await server.kill();
    await server.start();
    expect(await store.getRun(lease.runId)).toMatchObject({ state: "exited" });
  });

  test("that is restored from a backup refuses unknown epochs, and accepts a claim above them", async () => {
    const lease = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("before")]);
    await store[Symbol.asyncDispose]();
    const backup = await server.createDatabase(database.name);
    store = await database.open();
    const from = { ownerInstanceId: lease.ownerInstanceId, epoch: lease.epoch };
    const claim = { ...from, runId: lease.runId, from, leaseMs: LEASE_MS, expiredForMs: null };
    const newer = (await store.acquireLease({ ...claim, epoch: 5 })) ?? expect.fail("no lease");
    await store.saveRun(newer, GATED, [newRunEvent("after")]);
    const later = await store.insertRun(newRun(), LEASE_MS);
    const [seen] = await store.listEvents({ newestFirst: true, limit: 1 });

    await using restored = await backup.open();
    // The same owner under an epoch of the future, and a run that is not on record: nobody has them, says the error.
    for (const held of [newer, later]) {
      const error = await restored.saveRun(held, RUNNING).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LeaseLost);
      expect(error).toMatchObject({ heldBy: null });
    }
    expect(await restored.renewLeases("owner-a", LEASE_MS)).toBe(1);
    expect(await restored.listOwnedRunIds("owner-a")).toEqual([lease.runId]);
    expect(await restored.acquireLease({ ...claim, epoch: 6 })).toMatchObject({ epoch: 6 });
    // A reader's cursor is ahead of everything there is.
    expect((await restored.listEvents({ newestFirst: true, limit: 1 }))[0]?.seq).toBeLessThan(seen?.seq ?? 0);
  });
});
