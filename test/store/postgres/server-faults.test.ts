import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { LeaseLost } from "../../../src/errors.js";
import type { Store } from "../../../src/store/store.js";
import {
  LEASE_MS,
  newRunEvent,
  EXITED,
  GATED,
  newRun,
  RUNNING,
  stealClaim,
} from "../../support/store/run-samples.js";
import {
  storeUnusable,
  startPostgresServer,
  whyNoPostgres,
  type PostgresDatabase,
  type PostgresServer,
} from "../../support/store/postgres-server.js";
import { scaled } from "../../support/scale.js";

const order = ["starting", "running", "exited"];

describe.skipIf(whyNoPostgres !== null)("a PostgreSQL server", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  let store: Store;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    database = await server.createDatabase();
    store = await database.open();
  });
  afterEach(() => store[Symbol.asyncDispose]());

  test(
    "killed under its writers loses nothing that was promised, keeps nothing half, and is taken up again",
    { timeout: 90_000 },
    async () => {
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
        await expect.poll(() => promised.size, { timeout: 15_000 }).toBeGreaterThan(40 * round);
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
    },
  );

  test("that hangs is not asked again until it answers, and what was not sent was not recorded", async () => {
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

  test("that answers before it has written is made to write first", async () => {
    await database.query(`alter database ${database.name} set synchronous_commit = off`);
    await using careful = await database.open();
    const lease = await careful.insertRun(newRun(), LEASE_MS);
    await careful.saveRun(lease, EXITED, [newRunEvent("told")]);
    await server.kill();
    await server.start();
    expect(await store.getRun(lease.runId)).toMatchObject({ state: "exited" });
  });

  test(
    "gives each of a thousand expired leases to one of two claimants, over many connections",
    { timeout: 90_000 },
    async () => {
      const leases = await Promise.all(Array.from({ length: 1_000 }, () => store.insertRun(newRun(), -1)));
      const claim = async (thief: string): Promise<string[]> => {
        await using own = await database.open();
        const left = [...leases];
        const won: string[] = [];
        const work = async (): Promise<void> => {
          for (let lease = left.pop(); lease !== undefined; lease = left.pop())
            if ((await own.acquireLease(stealClaim(lease, thief), [newRunEvent(lease.runId)])) !== null)
              won.push(lease.runId);
        };
        await Promise.all(Array.from({ length: 8 }, work));
        return won;
      };
      const [ours, theirs] = await Promise.all([claim("owner-b"), claim("owner-c")]);
      expect(ours.length + theirs.length).toBe(1_000);
      expect(new Set([...ours, ...theirs]).size).toBe(1_000);
      expect(new Set(await store.listOwnedRunIds("owner-b"))).toEqual(new Set(ours));
      expect(await store.listEvents({})).toHaveLength(1_000);
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(0);
    },
  );

  test("put back to an older backup refuses the epochs it does not know, and takes a claim above them", async () => {
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
