import { beforeEach, describe, expect, test } from "vitest";
import { openPostgresStoreForReading } from "../../../src/store/postgres/open.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { EXITED, forbiddenUpdates, LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { newSession } from "../../support/store/session-samples.js";

const newest = migrations.at(-1)?.id ?? 0;

/** Undoes the migrations that gave runs their sessions, with all that depends on them. */
const BEFORE_SESSIONS_OF_RUNS = `
  alter table holdfast.run_events drop column state_id;
  drop table holdfast.commands, holdfast.hosts, holdfast.gateways;
  alter table holdfast.runs drop column session_id cascade, drop column hidden_at cascade, drop column state_id,
    drop column time_namespace;
  create trigger runs_exited_is_final before update on holdfast.runs for each row when (old.state = 'exited')
  execute function holdfast.refuse_update('an exited run never changes');
  delete from holdfast.holdfast_migrations where id between 7 and 10 or id = 14;`;

describe.skipIf(whyNoPostgres !== null)("the schema of a PostgreSQL store", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  beforeEach(async () => {
    database = await server.createDatabase();
  });

  const create = async (): Promise<void> => (await database.open())[Symbol.asyncDispose]();
  const openForReading = () => openPostgresStoreForReading({ url: database.url, name: "reader" });

  test("ten processes that open an empty database at once create one schema", async () => {
    const stores = await Promise.all(Array.from({ length: 10 }, () => database.open()));
    await Promise.all(stores.map((store, at) => store.appendEvents([newRunEvent(`r${at}`)])));
    expect(await stores[0]?.listEvents({})).toHaveLength(10);
    const applied = await database.query("select id, name from holdfast.holdfast_migrations order by id");
    expect(applied).toEqual(migrations.map(({ id, name }) => ({ id: String(id), name })));
    await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
  });

  test("a migration that fails is rolled back", async () => {
    // This view makes one step fail.
    await database.query("create schema holdfast; create view holdfast.sessions as select 1 as one");
    await expect(database.open()).rejects.toThrow(/sessions/);
    expect(await database.query("select tablename from pg_tables where schemaname = 'holdfast'")).toEqual([]);
    await database.query("drop view holdfast.sessions");
    await create();
  });

  test("a store written by a newer version is refused with the remedy, and not changed", async () => {
    await create();
    await database.query(
      "insert into holdfast.holdfast_migrations (id, name, applied_at) values (9999, 'from the future', 0)",
    );
    for (const open of [() => database.open(), openForReading]) {
      const { message } = await storeUnusable(open());
      expect(message).toContain(`newer Holdfast (schema 9999, this one knows ${newest})`);
      expect(message).toContain("Upgrade Holdfast");
    }
  });

  test("a schema left by an older version is completed by a writer and refused by a reader", async () => {
    await create();
    await database.query(`${BEFORE_SESSIONS_OF_RUNS}
      alter table holdfast.runs drop column service, drop column limits, drop column exit_limit;
      drop table holdfast.task_outbox, holdfast.task_events, holdfast.tasks, holdfast.acp_permission_rules, holdfast.acp_permissions, holdfast.acp_updates, holdfast.acp_turns, holdfast.acp_sessions,
        holdfast.session_messages, holdfast.approvals, holdfast.session_tokens, holdfast.sessions;
      drop index holdfast.runs_of_session; delete from holdfast.holdfast_migrations where id >= 4;
      alter table holdfast.holdfast_migrations drop column min_compatible`);
    expect((await storeUnusable(openForReading())).message).toContain(
      `older Holdfast (schema 3, this one reads ${newest})`,
    );
    await using store = await database.open();
    expect(await store.createSession(newSession())).toMatchObject({ created: true });
  });

  test("runs of an older release get the session that had their key when they started", async () => {
    const first = newSession({ key: "k", createdAt: 100, lineage: [] });
    const second = newSession({ key: "k", createdAt: 300, lineage: [] });
    const runs = [50, 150, 250, 350].map((createdAt) => newRun({ sessionKey: "k", createdAt }));
    {
      await using store = await database.open();
      await store.createSession(first);
      await store.closeSession(first.id, "a", 200);
      await store.createSession(second);
      for (const run of runs) await store.saveRun(await store.insertRun(run, LEASE_MS), EXITED);
    }
    await database.query(BEFORE_SESSIONS_OF_RUNS);
    await using store = await database.open();
    const ids = await Promise.all(runs.map(async ({ runId }) => (await store.getRun(runId))?.sessionId));
    expect(ids).toEqual([null, first.id, null, second.id]);
    expect(await store.listHosts()).toMatchObject([{ hostId: runs[0]?.hostId, name: "" }]);
  });

  test("events of an older release get the state directory of their runs", async () => {
    {
      await using store = await database.open();
      for (const stateId of ["one", "two", null]) {
        const run = newRun({ runId: `run_${stateId}`, stateId });
        await store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]);
      }
      await store.appendEvents([newRunEvent("gone")]);
    }
    await database.query(`alter table holdfast.run_events drop column state_id;
      drop index holdfast.runs_open_of_state;
      delete from holdfast.holdfast_migrations where id = 10`);
    await using store = await database.open();
    expect(await store.listEvents({ stateId: "one" })).toMatchObject([{ runId: "run_one" }]);
    expect(await store.listEvents({})).toHaveLength(4);
  });

  test("an ended run can be hidden, and nothing else of it can change", async () => {
    await using store = await database.open();
    await store.saveRun(await store.insertRun(newRun(), LEASE_MS), EXITED);
    const update = (change: string) => database.query(`update holdfast.runs set ${change}`);
    const columns = (await database.query(
      "select column_name as name, data_type as type from information_schema.columns where table_schema = 'holdfast' and table_name = 'runs'",
    )) as { name: string; type: string }[];
    expect(columns.length).toBeGreaterThan(50);
    const different = columns.map(({ name, type }): [string, string] => [
      name,
      type === "text" ? `coalesce(${name}, '') || 'x'` : `coalesce(${name}, 0) + 1`,
    ]);
    for (const change of forbiddenUpdates(new Map(different)))
      await expect(update(change), change).rejects.toThrow("an exited run never changes");
    await update("hidden_at = 1");
    await expect(update("hidden_at = 2")).rejects.toThrow("an exited run never changes");
  });
});
