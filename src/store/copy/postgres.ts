import type { Pool, PoolClient } from "pg";
import { parsePostgresUrl, type PostgresAddress } from "../../config/postgres-url.js";
import { SERVER_CLOCK, withoutNul } from "../postgres/engine.js";
import { translatePostgresError } from "../postgres/errors.js";
import { openPostgresStore, openReadPool } from "../postgres/open.js";
import { openPool } from "../postgres/pool.js";
import { TABLES } from "../sql/migrations.js";
import {
  BATCH_ROWS,
  type ColumnValue,
  type TableReader,
  type TableRow,
  type TableWriter,
} from "./table-io.js";

/** For one statement, and between two: the other side may be slow, and the last one writes everything to the disk. */
const BUSY_MS = 60_000;

const session = { name: "copy", busyMs: BUSY_MS };

/** Null: nothing has been stored there. */
export async function openPostgresReader(url: string): Promise<TableReader | null> {
  const reading = await openReadPool({ url, ...session });
  if (reading === null) return null;
  const { pool, target: address } = reading;
  return inTransaction(pool, address, "begin isolation level repeatable read read only", async (ask) => ({
    ...tableReader(address, ask),
    [Symbol.asyncDispose]: async () => {},
  }));
}

/** Made, or brought up to date, if need be. */
export async function openPostgresWriter(url: string): Promise<TableWriter> {
  await (await openPostgresStore({ url, ...session }))[Symbol.asyncDispose]();
  const address = parsePostgresUrl(url);
  const pool = openPool(address, { ...session, readOnly: false });
  return inTransaction(pool, address, "begin", async (ask) => {
    // Readers go on; whoever wants to write finds everything, or nothing.
    await ask(`lock table ${TABLES.join(", ")} in exclusive mode`);
    return {
      ...tableReader(address, ask),
      toStorable: (value) => withoutNul(value) as ColumnValue,
      async insert(table, _, rows) {
        await ask(
          `insert into ${table} overriding system value select * from json_populate_recordset(null::${table}, $1::json)`,
          [JSON.stringify(rows)],
        );
      },
      async setLastNumber(table, highest) {
        // Not undone with the rest: an empty table that begins with a higher number is as good.
        if (highest > 0)
          await ask(`select setval('${await identitySequence(address, ask, table)}', ${highest})`);
      },
      async commit() {
        await ask("commit");
      },
      [Symbol.asyncDispose]: async () => {},
    };
  });
}

/** Names of connections that belong to no supervisor. */
const READER_NAMES = ["reader", "doctor", session.name];

type QueryRows = (sql: string, values?: readonly string[]) => Promise<TableRow[]>;

/** On one connection, in one transaction that ends with it. */
async function inTransaction<Side extends TableReader>(
  pool: Pool,
  address: PostgresAddress,
  begin: string,
  make: (ask: QueryRows) => Promise<Side>,
): Promise<Side> {
  let client: PoolClient | null = null;
  const close = async (): Promise<void> => {
    // Not put back: whatever is not committed is undone by the server.
    client?.release(true);
    await pool.end();
  };
  try {
    client = await pool.connect();
    const connected = client;
    const ask: QueryRows = async (sql, values = []) => {
      try {
        return (await connected.query<TableRow>(sql, [...values])).rows;
      } catch (error) {
        throw translatePostgresError(error, address, "asking");
      }
    };
    await ask(begin);
    return { ...(await make(ask)), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw translatePostgresError(error, address, "connecting");
  }
}

function tableReader(
  address: PostgresAddress,
  ask: QueryRows,
): Omit<TableReader, typeof Symbol.asyncDispose> {
  return {
    query: ask,
    async *rows(table) {
      await ask(`declare portions no scroll cursor for select * from ${table}`);
      for (;;) {
        const portion = await ask(`fetch ${BATCH_ROWS} from portions`);
        if (portion.length === 0) break;
        yield portion;
      }
      await ask("close portions");
    },
    async columns(table) {
      const rows = await ask(
        "select column_name from information_schema.columns where table_schema = $1 and table_name = $2",
        [address.schema, table],
      );
      return rows.map((row) => String(row["column_name"]));
    },
    async lastNumber(table) {
      const sequence = await identitySequence(address, ask, table);
      if (sequence === null) return null;
      const [found] = await ask(
        `select case when is_called then last_value else 0 end as highest from ${sequence}`,
      );
      return Number(found?.["highest"] ?? 0);
    },
    async now() {
      const [row] = await ask(`select ${SERVER_CLOCK} as now`);
      return Number(row?.["now"]);
    },
    async connectedInstances() {
      const rows = await ask(
        "select distinct substr(application_name, 10) as name from pg_stat_activity where datname = current_database() and application_name like 'holdfast/%'",
      );
      return rows.map((row) => String(row["name"])).filter((name) => !READER_NAMES.includes(name));
    },
    requireConsistentRead: async () => {},
  };
}

/** What gives a table's rows their numbers. */
async function identitySequence(
  { schema }: PostgresAddress,
  ask: QueryRows,
  table: string,
): Promise<string | null> {
  const [found] = await ask(
    "select pg_get_serial_sequence($1 || '.' || $2, column_name) as name from information_schema.columns where table_schema = $1 and table_name = $2 and is_identity = 'YES'",
    [schema, table],
  );
  return found === undefined ? null : String(found["name"]);
}
