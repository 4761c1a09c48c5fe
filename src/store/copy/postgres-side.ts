import type { Pool, PoolClient } from "pg";
import { translatePostgresError } from "../postgres/errors.js";
import { openPostgresStore } from "../postgres/open.js";
import { openPool } from "../postgres/pool.js";
import { storable } from "../postgres/postgres-engine.js";
import { openForReading } from "../postgres/reading.js";
import { parseTarget, type PostgresTarget } from "../postgres/target.js";
import { SERVER_CLOCK } from "../postgres/words.js";
import { tables } from "../sql/migrations.js";
import { PORTION, type Reader, type Row, type Value, type Writer } from "./side.js";

/** For one statement, and between two: the other side may be slow, and the last one writes everything to the disk. */
const BUSY_MS = 60_000;

const session = { name: "copy", busyMs: BUSY_MS };

/** Null: nothing has been stored there. */
export async function openPostgresReader(url: string): Promise<Reader | null> {
  const reading = await openForReading({ url, ...session });
  if (reading === null) return null;
  const { pool, target } = reading;
  return within(pool, target, "begin isolation level repeatable read read only", async (ask) => ({
    ...reader(target, ask),
    [Symbol.asyncDispose]: async () => {},
  }));
}

/** Made, or brought up to date, if need be. */
export async function openPostgresWriter(url: string): Promise<Writer> {
  await (await openPostgresStore({ url, ...session }))[Symbol.asyncDispose]();
  const target = parseTarget(url);
  const pool = openPool(target, { ...session, readOnly: false });
  return within(pool, target, "begin", async (ask) => {
    // Readers go on; whoever wants to write finds everything, or nothing.
    await ask(`lock table ${tables.join(", ")} in exclusive mode`);
    return {
      ...reader(target, ask),
      fit: (value) => storable(value) as Value,
      async insert(table, _, rows) {
        await ask(
          `insert into ${table} overriding system value select * from json_populate_recordset(null::${table}, $1::json)`,
          [JSON.stringify(rows)],
        );
      },
      async startAfter(table, highest) {
        // Not undone with the rest: an empty table that begins with a higher number is as good.
        if (highest > 0) await ask(`select setval('${await numbering(target, ask, table)}', ${highest})`);
      },
      async commit() {
        await ask("commit");
      },
      [Symbol.asyncDispose]: async () => {},
    };
  });
}

/** Names of connections that belong to no supervisor. */
const onlyReading = ["reader", "doctor", session.name];

type Ask = (sql: string, values?: readonly string[]) => Promise<Row[]>;

/** On one connection, in one transaction that ends with it. */
async function within<Side extends Reader>(
  pool: Pool,
  target: PostgresTarget,
  begin: string,
  make: (ask: Ask) => Promise<Side>,
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
    const ask: Ask = async (sql, values = []) => {
      try {
        return (await connected.query<Row>(sql, [...values])).rows;
      } catch (error) {
        throw translatePostgresError(error, target, "asking");
      }
    };
    await ask(begin);
    return { ...(await make(ask)), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw translatePostgresError(error, target, "connecting");
  }
}

function reader(target: PostgresTarget, ask: Ask): Omit<Reader, typeof Symbol.asyncDispose> {
  return {
    ask,
    async *rows(table) {
      await ask(`declare portions no scroll cursor for select * from ${table}`);
      for (;;) {
        const portion = await ask(`fetch ${PORTION} from portions`);
        if (portion.length === 0) break;
        yield portion;
      }
      await ask("close portions");
    },
    async columns(table) {
      const rows = await ask(
        "select column_name from information_schema.columns where table_schema = $1 and table_name = $2",
        [target.schema, table],
      );
      return rows.map((row) => String(row["column_name"]));
    },
    async highest(table) {
      const sequence = await numbering(target, ask, table);
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
    async connected() {
      const rows = await ask(
        "select distinct substr(application_name, 10) as name from pg_stat_activity where datname = current_database() and application_name like 'holdfast/%'",
      );
      return rows.map((row) => String(row["name"])).filter((name) => !onlyReading.includes(name));
    },
    wasOneMoment: async () => {},
  };
}

/** What gives a table's rows their numbers. */
async function numbering({ schema }: PostgresTarget, ask: Ask, table: string): Promise<string | null> {
  const [found] = await ask(
    "select pg_get_serial_sequence($1 || '.' || $2, column_name) as name from information_schema.columns where table_schema = $1 and table_name = $2 and is_identity = 'YES'",
    [schema, table],
  );
  return found === undefined ? null : String(found["name"]);
}
