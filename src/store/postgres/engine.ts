import { setTimeout as delay } from "node:timers/promises";
import {
  CompiledQuery,
  type DatabaseConnection,
  Kysely,
  PostgresAdapter,
  PostgresQueryCompiler,
  type QueryResult,
  type RawBuilder,
  sql,
} from "kysely";
import { DatabaseError, type Pool, type PoolClient } from "pg";
import type { PostgresAddress } from "../../config/postgres-url.js";
import { StoreAway } from "../../errors.js";
import type { Schema } from "../schema.js";
import {
  EngineDialect,
  type GroupedCall,
  rejectStreaming,
  type SqlDialect,
  type SqlEngine,
  type Steps,
} from "../sql/engine.js";
import { Statements } from "../sql/statement-cache.js";
import { TABLES } from "../sql/migrations.js";
import { CallGroups } from "./call-groups.js";
import { isConflict, isMissingSchema, serverHangsError, translatePostgresError } from "./errors.js";
import { PostgresNotifier } from "./listen-notify.js";
import { ServerGenerations, StatementNames } from "./pool.js";
import { ServerCircuitBreaker } from "./server-circuit-breaker.js";

/**
 * Milliseconds on the server's clock. Not now(), which is the start of the transaction: after a wait for a lock, a lease
 * would be in the past. Not extract(), which computes with decimals for every row.
 */
export const SERVER_CLOCK = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint";

const postgresDialect: SqlDialect = {
  now: () => sql.raw<number>(SERVER_CLOCK),
  jsonEntries: (column) => sql`json_each_text(${withoutUnreadableEscapes(column)}::json)`,
  jsonItems: (column) => sql`json_array_elements_text(${sql.ref(column)}::json)`,
  jsonObjects: (array) =>
    sql`(select place, item::text as text from json_array_elements(${array}::json) with ordinality as items (item, place))`,
  lockShared: sql`for share`,
  lockSkipLocked: sql`for update skip locked`,
  shared: true,
};

/** Replaces JSON escapes that no text can hold (NUL, half a surrogate pair) by the character that a parameter gets. */
function withoutUnreadableEscapes(column: string): RawBuilder<string> {
  const unreadable = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})`;
  return sql`regexp_replace(${sql.ref(column)}, ${sql.lit(unreadable)}, ${sql.lit(String.raw`\1\\ufffd`)}, 'g')`;
}

/** Conflicts are between a few statements of milliseconds, so this many in a row mean another problem. */
const ATTEMPTS = 10;
const PAUSE_MS = 5;

const BEGIN = CompiledQuery.raw("begin");
const COMMIT = CompiledQuery.raw("commit");

/** Creates missing tables, or rejects. */
type EnsureSchema = (client: PoolClient, target: PostgresAddress) => Promise<void>;

type Execute = <Row>(query: CompiledQuery<Row>) => Promise<QueryResult<Row>>;

export class PostgresEngine implements SqlEngine {
  readonly dialect = postgresDialect;
  readonly db: Kysely<Schema>;
  readonly statements = new Statements();
  readonly #pool: Pool;
  readonly #address: PostgresAddress;
  readonly #notifier: PostgresNotifier;
  readonly #names = new StatementNames();
  readonly #ensureSchema: EnsureSchema | null;
  readonly #generations: ServerGenerations;
  readonly #breaker: ServerCircuitBreaker;

  constructor(
    pool: Pool,
    target: PostgresAddress,
    options: { readonly ensureSchema: EnsureSchema | null; readonly generations?: ServerGenerations },
  ) {
    this.#pool = pool;
    this.#address = target;
    this.#generations = options.generations ?? new ServerGenerations();
    this.#ensureSchema = options.ensureSchema;
    this.#notifier = new PostgresNotifier(pool, target.schema);
    const probe = async (): Promise<void> => {
      const client = await pool.connect();
      try {
        await client.query("select 1");
        client.release();
      } catch (error) {
        client.release(true);
        throw error;
      }
    };
    this.#breaker = new ServerCircuitBreaker(probe, (reason) => serverHangsError(target, reason));
    const connection: DatabaseConnection = {
      executeQuery: <Row>(query: CompiledQuery) =>
        this.#withConnection((execute) => execute(query as CompiledQuery<Row>)),
      streamQuery: rejectStreaming,
    };
    this.db = new Kysely<Schema>({
      dialect: new EngineDialect({
        connection,
        compiler: PostgresQueryCompiler,
        adapter: PostgresAdapter,
      }),
    });
  }

  get generation(): number {
    return this.#generations.generation;
  }

  get generationChangedAt(): number {
    return this.#generations.changedAt;
  }

  read<Result>(query: (db: Kysely<Schema>) => Promise<Result>): Promise<Result> {
    return query(this.db);
  }

  perform<Result>(steps: () => Steps<Result>): Promise<Result> {
    return drive(steps(), (query) => this.#withConnection((execute) => execute(query)));
  }

  transact<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#withConnection(async (execute) => {
      await execute(BEGIN);
      const result = await drive(steps(), execute);
      await execute(COMMIT);
      return result;
    });
  }

  group<Call, Result>(kind: GroupedCall<Call, Result>): (call: Call) => Promise<Result> {
    const groups = new CallGroups(kind);
    return (call) => groups.add(call);
  }

  /** The server executes transactions of several connections at the same time. */
  transactTogether<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.transact(steps);
  }

  /** Not grouped here: the server syncs concurrent commits together. */
  transactDurably<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.transact(steps);
  }

  /** A commit is answered when it is on the disk. */
  async flush(): Promise<void> {}

  async lastSettledEvent(): Promise<number> {
    const { rows } = await sql<{ settled: number }>`select settled_events() as settled`.execute(this.db);
    return rows[0]?.settled ?? 0;
  }

  notifyEvents(): void {
    this.#notifier.notifyEvents();
  }

  notifyTarget(target: string): void {
    this.#notifier.notifyTarget(target);
  }

  async now(): Promise<number> {
    const { rows } = await sql<{ now: number }>`select ${this.dialect.now()} as now`.execute(this.db);
    return rows[0]?.now ?? Number.NaN;
  }

  async unwritableTables(): Promise<readonly string[]> {
    const { rows } = await sql<{ name: string }>`select relname as name
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = ${this.#address.schema} and relkind = 'r' and relname = any(${TABLES})
        and not (has_table_privilege(pg_class.oid, 'insert') and has_table_privilege(pg_class.oid, 'update')
          and has_table_privilege(pg_class.oid, 'delete'))
      order by relname`.execute(this.db);
    return rows.map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#breaker.dispose();
    await this.#notifier[Symbol.asyncDispose]();
    await this.db.destroy();
    if (!this.#pool.ending) await this.#pool.end();
  }

  /** Uses a connection of its own, and tries again if the server rolled back because of a conflict. */
  async #withConnection<Result>(work: (execute: Execute) => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      await this.#breaker.enter();
      const client = await this.#connect();
      try {
        const result = await work((query) => this.#execute(client, query));
        client.release();
        return result;
      } catch (error) {
        // The connection is closed after an error: a new one takes a millisecond.
        client.release(true);
        if (attempt === ATTEMPTS) throw error;
        if (isMissingSchema(error) && this.#ensureSchema !== null)
          await this.#recreateSchema(this.#ensureSchema);
        else if (isConflict(error)) await delay(Math.random() * PAUSE_MS * attempt);
        else throw error;
      }
    }
  }

  /** The database was replaced by an older or empty one while the supervisor runs. */
  async #recreateSchema(ensureSchema: EnsureSchema): Promise<void> {
    const client = await this.#connect();
    try {
      await ensureSchema(client, this.#address);
      // A new connection finds out that the tables are others.
      client.release(true);
    } catch (error) {
      client.release(true);
      throw translatePostgresError(error, this.#address, "executing");
    }
  }

  async #connect(): Promise<PoolClient> {
    const began = performance.now();
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw this.#recordFailure(translatePostgresError(error, this.#address, "reconnecting"), began);
    }
  }

  /** Reports a failure to the circuit breaker, unless the server answered with an error. */
  #recordFailure(error: unknown, began: number): unknown {
    if (error instanceof StoreAway && !(error.cause instanceof DatabaseError))
      this.#breaker.recordFailure(error, performance.now() - began);
    return error;
  }

  async #execute<Row>(client: PoolClient, query: CompiledQuery<Row>): Promise<QueryResult<Row>> {
    const began = performance.now();
    try {
      const { rows, rowCount } = await client.query({
        ...this.#names.of(query.sql),
        text: query.sql,
        values: query.parameters.map(withoutNul),
      });
      return { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) };
    } catch (error) {
      throw this.#recordFailure(translatePostgresError(error, this.#address, "executing"), began);
    }
  }
}

async function drive<Result>(steps: Steps<Result>, execute: Execute): Promise<Result> {
  let step = steps.next();
  while (step.done !== true) step = steps.next(await execute(step.value.compile()));
  return step.value;
}

/** PostgreSQL text cannot contain NUL; the record is written with a replacement character. */
export function withoutNul(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNul);
  return typeof value === "string" ? value.replaceAll("\0", "\u{FFFD}") : value;
}
