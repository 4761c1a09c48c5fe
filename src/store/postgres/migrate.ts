import type { Pool, PoolClient } from "pg";
import type { PostgresAddress } from "../../config/postgres-url.js";
import { StateUnusable } from "../../errors.js";
import {
  type AppliedMigration,
  type Migration,
  migrations,
  otherProgramError,
  pendingMigrations,
  requireMigrated,
  requireNoPendingMigrations,
  type StoreLabel,
} from "../sql/migrations.js";

/**
 * Sequence numbers are assigned before the commit, so events become visible out of order: a reader that has seen 13
 * before 12 is committed would never see 12. A lock from the number to the commit would serialize the writers of all
 * hosts, each waiting for the disk of the others. Instead every writer takes a shared advisory lock with the newest number
 * before it gets its own numbers. The lock blocks no other writer, ends with the transaction, and is visible to readers,
 * which read only up to the oldest of these locks.
 *
 * `settled_events` is correct because of its order. It reads the newest number first; later events are not read. Then it
 * reads the locks. A writer with a number up to the newest took its lock before. So either its lock is found, or its
 * transaction has ended; locks are released after the commit is visible, so the next statement finds its events.
 *
 * A lock's key has 31 bits for the number; the number nearest to the newest one is meant.
 */
function eventOrderDdl(schema: string): string {
  const half = 2 ** 30;
  const whole = 2 ** 31;
  return `
create function ${schema}.event_lock_class() returns integer language sql immutable
as $$ select hashtext('holdfast events of ${schema}') $$;

create function ${schema}.newest_event() returns bigint language sql volatile
as $$ select case when is_called then last_value else 0 end from ${schema}.run_events_seq_seq $$;

create function ${schema}.say_number_is_taken() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(${schema}.event_lock_class(), (${schema}.newest_event() % ${whole})::integer);
  return null;
end $$;

-- Once per statement, and before its first row is numbered.
create trigger run_events_in_order before insert on ${schema}.run_events
for each statement execute function ${schema}.say_number_is_taken();

create function ${schema}.settled_events() returns bigint language plpgsql volatile as $$
declare
  newest bigint := ${schema}.newest_event();
  behind bigint;
begin
  select max((newest - objid::bigint + ${half} + ${whole}) % ${whole} - ${half}) into behind
  from pg_locks
  where locktype = 'advisory' and objsubid = 2 and classid = ${schema}.event_lock_class()::oid
    and database = (select oid from pg_database where datname = current_database());
  return newest - greatest(coalesce(behind, 0), 0);
end $$;
`;
}

/**
 * Translates SQL of the migrations, which is written for SQLite, to PostgreSQL. A statement that is not translated fails
 * the migration, in one transaction, and the tests.
 */
export function translateDdl(text: string): string {
  const finals = text.replaceAll(
    /create trigger (\w+)\s+before update( of [\w, ]+)? on (\w+)(?:\s+when ([^;]+?))?\s+begin\s+select raise\(abort, ('[^']+')\);\s+end;/g,
    (_, name: string, of: string | undefined, table: string, when: string | undefined, message: string) =>
      `create trigger ${name} before update${of ?? ""} on ${table} for each row${triggerCondition(when)} execute function refuse_update(${message});`,
  );
  return (
    finals
      .replaceAll(
        /drop trigger (\w+);/g,
        (_, name: string) => `drop trigger ${name} on ${tableOfTrigger(name, finals)};`,
      )
      .replaceAll(
        /integer primary key autoincrement not null/g,
        "bigint generated always as identity primary key",
      )
      // Identifiers are sorted and searched by their bytes, whatever the database's language.
      .replaceAll("text primary key", 'text collate "C" primary key')
      .replaceAll(/\binteger\b/g, "bigint")
      .replaceAll(") strict;", ");")
  );
}

/** Functions that the translated SQL uses. */
export const DDL_PREAMBLE = `
create function json_type(text) returns text language sql immutable as $$ select json_typeof($1::json) $$;

create function refuse_update() returns trigger language plpgsql as $$
begin
  raise exception '%', tg_argv[0];
end $$;
`;

function triggerCondition(when: string | undefined): string {
  // SQLite's `is` compares any values; PostgreSQL's does not.
  return when === undefined
    ? ""
    : ` when (${when.replaceAll(/ is (\(?(?:old|new)\.)/g, " is not distinct from $1")})`;
}

/** The same migration creates the trigger again. */
function tableOfTrigger(trigger: string, text: string): string {
  return (
    new RegExp(`create trigger ${trigger} before update(?: of [\\w, ]+)? on (\\w+)`).exec(text)?.[1] ?? ""
  );
}

/** Timeout of a migration: it may wait for another process that migrates. */
const MIGRATION_MS = 60_000;

/** Migrates the schema in one transaction. Of several processes, one migrates and the others wait. */
export async function migratePostgres(client: PoolClient, address: PostgresAddress): Promise<void> {
  // Checked first without the lock, so that opening does not wait.
  if ((await pendingPostgresMigrations(client, address))?.length === 0) return;
  await requireUtf8(client, address);
  await client.query("begin");
  await client.query(`set local statement_timeout = ${MIGRATION_MS}`);
  await client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [
    `holdfast schema ${address.schema}`,
  ]);
  // Checked again: another process may have migrated meanwhile.
  const wanted = await pendingPostgresMigrations(client, address);
  if (wanted === null) await client.query(initialDdl(address.schema, await schemaExists(client, address)));
  for (const { id, name, sql } of wanted ?? migrations) {
    await client.query(translateDdl(sql));
    const more = POSTGRES_ADDITIONS[id]?.(address.schema);
    if (more !== undefined) await client.query(more);
    await client.query("insert into holdfast_migrations (id, name, applied_at) values ($1, $2, $3)", [
      id,
      name,
      Date.now(),
    ]);
  }
  for (const { id, minCompatible } of wanted ?? migrations)
    if (minCompatible !== undefined)
      await client.query("update holdfast_migrations set min_compatible = $1 where id = $2", [
        minCompatible,
        id,
      ]);
  await client.query("commit");
}

/** Additional statements for PostgreSQL, by the migration that they complete. */
const POSTGRES_ADDITIONS: Readonly<Record<number, (schema: string) => string>> = {
  // Room for new versions of a row beside the old one: renewing a lease then touches no index.
  1: () => "alter table runs set (fillfactor = 50)",
  2: eventOrderDdl,
  // A file is of one state directory, and so are all of its events.
  10: () => "create index run_events_of_state on run_events (state_id, seq)",
};

function initialDdl(schema: string, exists: boolean): string {
  return `
${exists ? "" : `create schema ${schema};`}
create table holdfast_migrations (id bigint primary key, name text not null, applied_at bigint not null);
${DDL_PREAMBLE}`;
}

/** For supervisors with `database.migrate = "manual"`. */
export async function requireMigratedSchema(client: PoolClient, address: PostgresAddress): Promise<void> {
  requireMigrated(postgresStoreLabel(address), await pendingPostgresMigrations(client, address));
}

/** For readers, which may not migrate. False: the store has no tables yet. */
export async function hasCurrentSchema(pool: Pool | PoolClient, address: PostgresAddress): Promise<boolean> {
  const wanted = await pendingPostgresMigrations(pool, address);
  if (wanted === null) return false;
  requireNoPendingMigrations(postgresStoreLabel(address), wanted);
  return true;
}

/** Null: nothing has been written yet. */
async function pendingPostgresMigrations(
  client: Pool | PoolClient,
  address: PostgresAddress,
): Promise<readonly Migration[] | null> {
  const recorded = await appliedPostgresMigrations(client, address);
  return recorded === null ? null : pendingMigrations(postgresStoreLabel(address), recorded);
}

/** The migrations that the store has recorded, including those of a newer version. Null: the store has no tables yet. */
export async function appliedPostgresMigrations(
  client: Pool | PoolClient,
  address: PostgresAddress,
): Promise<readonly AppliedMigration[] | null> {
  const { rows: tables } = await client.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = $1",
    [address.schema],
  );
  if (tables.length === 0) return null;
  if (!tables.some(({ name }) => name === "holdfast_migrations"))
    throw otherProgramError(postgresStoreLabel(address));
  await requireSchemaUsage(client, address);
  const { rows } = await client.query<AppliedMigration>("select * from holdfast_migrations order by id");
  return rows;
}

/** Without the right to use the schema, the server reports its tables as missing. */
async function requireSchemaUsage(
  client: Pool | PoolClient,
  { label, schema }: PostgresAddress,
): Promise<void> {
  const { rows } = await client.query<{ usable: boolean }>(
    "select has_schema_privilege($1, 'usage') as usable",
    [schema],
  );
  if (rows[0]?.usable !== false) return;
  throw new StateUnusable(
    label,
    `the ${label} has a schema ${schema} that belongs to another user, and this one has no right to use it; nothing was changed. Use the address with the user that made it, or grant this one the schema and its tables.`,
  );
}

/** Checked, because `create schema if not exists` needs the right to create a schema even if it exists. */
async function schemaExists(client: PoolClient, { schema }: PostgresAddress): Promise<boolean> {
  const { rows } = await client.query("select 1 from pg_namespace where nspname = $1", [schema]);
  return rows.length > 0;
}

async function requireUtf8(client: PoolClient, { label }: PostgresAddress): Promise<void> {
  const { rows } = await client.query<{ encoding: string }>(
    "select current_setting('server_encoding') as encoding",
  );
  const encoding = rows[0]?.encoding ?? "";
  if (encoding === "UTF8") return;
  throw new StateUnusable(
    label,
    `the ${label} has the encoding ${encoding} and cannot hold every text; nothing was changed. Create one with encoding UTF8.`,
  );
}

export function postgresStoreLabel({ label, schema }: PostgresAddress): StoreLabel {
  return {
    path: `schema ${schema} of the ${label}`,
    otherwise: "use another database",
  };
}
