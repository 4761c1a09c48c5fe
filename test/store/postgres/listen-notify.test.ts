import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { EventWatch } from "../../../src/store/postgres/listen-notify.js";
import { checkPostgresStore } from "../../../src/store/postgres/open.js";
import type { Store } from "../../../src/store/store.js";
import { scaled } from "../../support/scale.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { waitFor } from "../../support/wait-for.js";

describe.skipIf(whyNoPostgres !== null)("events in PostgreSQL", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let store: Store;
  let other: Store;
  /** A writer that takes its time over a transaction. */
  let slow: Client;
  beforeEach(async () => {
    database = await server.createDatabase();
    store = await database.open();
    other = await database.open();
    slow = new Client(database.url);
    slow.on("error", () => {});
    await slow.connect();
  });
  afterEach(async () => {
    await slow.end().catch(() => {});
    await store[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
  });

  const insertSlowly = (runId: string) =>
    slow.query(
      `begin; insert into holdfast.run_events (run_id, type, at, descendants, data) values ('${runId}', 'spawn', 0, 0, '{}')`,
    );
  const read = async (after = 0): Promise<string[]> =>
    (await other.listEvents({ after })).map(({ runId }) => runId);

  test("an event with a lower number that is committed later is not skipped", async () => {
    await store.appendEvents([newRunEvent("first")]);
    await insertSlowly("slow");
    await store.appendEvents([newRunEvent("quick")]);
    // The writer has committed; but to show it now would be to lose the slow one.
    expect(await read()).toEqual(["first"]);
    expect((await other.listEvents({ newestFirst: true }))[0]?.runId).toBe("first");
    await slow.query("commit");
    expect(await read()).toEqual(["first", "slow", "quick"]);
  });

  test("each state directory keeps its own number of events, however many others write", async () => {
    const kept = 100;
    await using busy = await database.open({ eventsKept: kept });
    const quietRun = newRun({ runId: "quiet", stateId: "quiet" });
    await busy.insertRun(quietRun, LEASE_MS, [newRunEvent("quiet"), newRunEvent("quiet")]);
    await busy.appendEvents([newRunEvent("nowhere")]);
    await busy.insertRun(newRun({ runId: "busy", stateId: "busy" }), LEASE_MS);
    for (let round = 0; round < 20; round += 1)
      await busy.appendEvents(Array.from({ length: 50 }, () => newRunEvent("busy")));
    expect(await busy.listEvents({ stateId: "quiet" })).toHaveLength(2);
    expect(await busy.listEvents({ runId: "nowhere" })).toHaveLength(1);
    const left = await busy.listEvents({ stateId: "busy" });
    expect(left).toHaveLength(kept);
    expect((await busy.listEvents({ newestFirst: true, limit: 1 }))[0]?.seq).toBe(left.at(-1)?.seq);
    expect(await checkPostgresStore({ url: database.url, name: "test" })).toMatchObject({
      events: kept + 3,
      mostEvents: kept,
    });
  });

  test("a writer that rolls back or disappears does not delay readers", async () => {
    await insertSlowly("undone");
    await store.appendEvents([newRunEvent("one")]);
    expect(await read()).toEqual([]);
    await slow.query("rollback");
    expect(await read()).toEqual(["one"]);
    await insertSlowly("killed");
    await store.appendEvents([newRunEvent("two")]);
    expect(await read()).toEqual(["one"]);
    await database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'",
    );
    await expect.poll(() => read()).toEqual(["one", "two"]);
  });

  test("long transactions of other programs do not delay readers", async () => {
    await slow.query("create table public.strangers (n int)");
    await slow.query("begin; insert into public.strangers values (1)");
    await store.appendEvents([newRunEvent("one")]);
    expect(await read()).toEqual(["one"]);
  });

  test("the order survives the 31 bits of a lock's number", async () => {
    for (const start of [2 ** 31 - 1, 2 ** 31 + 9, 2 ** 32 + 5]) {
      await database.query(`select setval('holdfast.run_events_seq_seq', ${start})`);
      await insertSlowly("slow");
      await store.appendEvents([newRunEvent("quick")]);
      expect(await read(start)).toEqual([]);
      await slow.query("commit");
      expect(await read(start)).toEqual(["slow", "quick"]);
    }
  });

  test("a reader among many writers sees every event once, in order", async () => {
    const writers = await Promise.all(Array.from({ length: 3 }, () => database.open()));
    const each = 60;
    let writing = true;
    const seen: number[] = [];
    const reader = (async () => {
      for (;;) {
        const last = !writing;
        const page = await other.listEvents({ after: seen.at(-1) ?? 0 });
        seen.push(...page.map(({ seq }) => seq));
        if (last && page.length === 0) return;
      }
    })();
    await Promise.all(
      writers.flatMap((writer, number) =>
        Array.from({ length: each }, (_, at) =>
          // Different lengths, so that they overtake each other.
          writer.appendEvents(Array.from({ length: 1 + (at % 7) * 20 }, () => newRunEvent(`w${number}`, at))),
        ),
      ),
    );
    writing = false;
    await reader;
    const [{ n } = { n: 0 }] = await database.query("select count(*)::int as n from holdfast.run_events");
    expect(seen).toEqual(seen.toSorted((one, another) => one - another));
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toHaveLength(Number(n));
    await Promise.all(writers.map((writer) => writer[Symbol.asyncDispose]()));
  });

  test("a listener is woken by events of others, also after a lost connection", async () => {
    let woken = 0;
    let hint: number | null = null;
    await using _watch = new EventWatch(
      { url: database.url, name: "watch" },
      (next) => {
        woken += 1;
        hint = next ?? hint;
      },
      // Never in this test: the wake-ups are the subject.
      600_000,
    );
    await waitFor("the first look", () => woken > 0);
    await store.appendEvents([newRunEvent("one")]);
    await waitFor("a wake-up with the event's number", () => hint === 1);

    const before = woken;
    await database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast/watch'",
    );
    await waitFor("a look after the gap", () => woken > before);
    await store.appendEvents([newRunEvent("two")]);
    await waitFor("a wake-up on the new connection", () => hint === 2);
  });

  test("a listener of a server that hangs can be closed", async () => {
    let woken = 0;
    const watch = new EventWatch({ url: database.url, name: "watch" }, () => (woken += 1), 600_000);
    await waitFor("the first look", () => woken > 0);
    server.pause();
    // Others have to say good-bye to it, too.
    const late = setTimeout(() => server.resume(), 10_000);
    const asked = performance.now();
    await watch[Symbol.asyncDispose]();
    expect(performance.now() - asked).toBeLessThan(scaled(9_000));
    clearTimeout(late);
    server.resume();
  });

  test("a lost notification only costs time", async () => {
    let woken = 0;
    await using _watch = new EventWatch({ url: database.url, name: "watch" }, () => (woken += 1), 20);
    await waitFor("looks without a reason", () => woken > 3);
  });
});
