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

/** Timeout of a statement, and between two: the other store may be slow, and the commit writes everything to disk. */
const BUSY_MS = 60_000;

const session = { name: "copy", busyMs: BUSY_MS };

/** Null: the store has no tables. */
export async function openPostgresReader(url: string): Promise<TableReader | null> {
  const readPool = await openReadPool({ url, ...session });
  if (readPool === null) return null;
  const { pool, address } = readPool;
  return inTransaction(pool, address, "begin isolation level repeatable read read only", async (query) => ({
    ...tableReader(address, query),
    [Symbol.asyncDispose]: async () => {},
  }));
}

/** Creates or migrates the store first. */
export async function openPostgresWriter(url: string): Promise<TableWriter> {
  await (await openPostgresStore({ url, ...session }))[Symbol.asyncDispose]();
  const address = parsePostgresUrl(url);
  const pool = openPool(address, { ...session, readOnly: false });
  return inTransaction(pool, address, "begin", async (query) => {
    // Readers continue. Writers wait for the commit.
    await query(`lock table ${TABLES.join(", ")} in exclusive mode`);
    return {
      ...tableReader(address, query),
      toStorable: (value) => withoutNul(value) as ColumnValue,
      async insert(table, _, rows) {
        await query(
          `insert into ${table} overriding system value select * from json_populate_recordset(null::${table}, $1::json)`,
          [JSON.stringify(rows)],
        );
      },
      async setLastNumber(table, highest) {
        // A rollback does not undo this; a higher number in an empty table does no harm.
        if (highest > 0)
          await query(`select setval('${await identitySequence(address, query, table)}', ${highest})`);
      },
      async commit() {
        await query("commit");
      },
      [Symbol.asyncDispose]: async () => {},
    };
  });
}

/** Names of connections that belong to no supervisor. */
const READER_NAMES = ["reader", "doctor", session.name];

type QueryRows = (sql: string, values?: readonly string[]) => Promise<TableRow[]>;

/** Uses one connection and one transaction, which ends with the connection. */
async function inTransaction<Side extends TableReader>(
  pool: Pool,
  address: PostgresAddress,
  begin: string,
  make: (query: QueryRows) => Promise<Side>,
): Promise<Side> {
  let client: PoolClient | null = null;
  const close = async (): Promise<void> => {
    // Closed, not returned to the pool: the server rolls back what is not committed.
    client?.release(true);
    await pool.end();
  };
  try {
    client = await pool.connect();
    const connected = client;
    const query: QueryRows = async (sql, values = []) => {
      try {
        return (await connected.query<TableRow>(sql, [...values])).rows;
      } catch (error) {
        throw translatePostgresError(error, address, "executing");
      }
    };
    await query(begin);
    return { ...(await make(query)), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw translatePostgresError(error, address, "connecting");
  }
}

function tableReader(
  address: PostgresAddress,
  query: QueryRows,
): Omit<TableReader, typeof Symbol.asyncDispose> {
  return {
    query: query,
    async *rows(table) {
      await query(`declare portions no scroll cursor for select * from ${table}`);
      for (;;) {
        const batch = await query(`fetch ${BATCH_ROWS} from portions`);
        if (batch.length === 0) break;
        yield batch;
      }
      await query("close portions");
    },
    async columns(table) {
      const rows = await query(
        "select column_name from information_schema.columns where table_schema = $1 and table_name = $2",
        [address.schema, table],
      );
      return rows.map((row) => String(row["column_name"]));
    },
    async lastNumber(table) {
      const sequence = await identitySequence(address, query, table);
      if (sequence === null) return null;
      const [found] = await query(
        `select case when is_called then last_value else 0 end as highest from ${sequence}`,
      );
      return Number(found?.["highest"] ?? 0);
    },
    async now() {
      const [row] = await query(`select ${SERVER_CLOCK} as now`);
      return Number(row?.["now"]);
    },
    async connectedInstances() {
      const rows = await query(
        "select distinct substr(application_name, 10) as name from pg_stat_activity where datname = current_database() and application_name like 'holdfast/%'",
      );
      return rows.map((row) => String(row["name"])).filter((name) => !READER_NAMES.includes(name));
    },
    requireConsistentRead: async () => {},
  };
}

/** The sequence that numbers the rows of a table. */
async function identitySequence(
  { schema }: PostgresAddress,
  query: QueryRows,
  table: string,
): Promise<string | null> {
  const [found] = await query(
    "select pg_get_serial_sequence($1 || '.' || $2, column_name) as name from information_schema.columns where table_schema = $1 and table_name = $2 and is_identity = 'YES'",
    [schema, table],
  );
  return found === undefined ? null : String(found["name"]);
}
