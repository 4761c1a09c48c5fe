import { setTimeout as delay } from "node:timers/promises";
import { CompiledQuery, Kysely, PostgresAdapter, PostgresQueryCompiler, sql } from "kysely";
import type { DatabaseConnection, QueryResult } from "kysely";
import { DatabaseError } from "pg";
import type { Pool, PoolClient } from "pg";
import { StoreAway } from "../../errors.js";
import type { Schema } from "../schema.js";
import { refuseToStream, StatementDialect } from "../sql/dialect.js";
import type { Engine } from "../sql/engine.js";
import { tables } from "../sql/migrations.js";
import type { Steps } from "../sql/steps.js";
import { isConflict, isHanging, lacksSchema, translatePostgresError } from "./errors.js";
import { Announcer } from "./announcer.js";
import { Breaker } from "./breaker.js";
import { StatementNames } from "./statement-names.js";
import type { PostgresTarget } from "./target.js";
import { postgresWords } from "./words.js";

/** Conflicts are between a few statements of milliseconds: who loses this often is not unlucky. */
const ATTEMPTS = 10;
const PAUSE_MS = 5;

const BEGIN = CompiledQuery.raw("begin");
const COMMIT = CompiledQuery.raw("commit");

/** What connections have led to. */
export class Meetings {
  #last = "";
  eras = 0;
  changedAt = -Infinity;

  readonly note = (what: string): void => {
    if (what === this.#last) return;
    this.eras += 1;
    if (this.eras > 1) this.changedAt = Date.now();
    this.#last = what;
  };
}

/** Creates missing tables, or rejects. */
type BringUpToDate = (client: PoolClient, target: PostgresTarget) => Promise<void>;

type Ask = <Row>(query: CompiledQuery<Row>) => Promise<QueryResult<Row>>;

export class PostgresEngine implements Engine {
  readonly words = postgresWords;
  readonly db: Kysely<Schema>;
  readonly #pool: Pool;
  readonly #target: PostgresTarget;
  readonly #announcer: Announcer;
  readonly #names = new StatementNames();
  readonly #bringUpToDate: BringUpToDate | null;
  readonly #met: Meetings;
  readonly #breaker: Breaker;

  constructor(
    pool: Pool,
    target: PostgresTarget,
    options: { readonly bringUpToDate: BringUpToDate | null; readonly met?: Meetings },
  ) {
    this.#pool = pool;
    this.#target = target;
    this.#met = options.met ?? new Meetings();
    this.#bringUpToDate = options.bringUpToDate;
    this.#announcer = new Announcer(pool, target.schema);
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
    this.#breaker = new Breaker(probe, (reason) => isHanging(target, reason));
    const connection: DatabaseConnection = {
      executeQuery: <Row>(query: CompiledQuery) => this.#alone((ask) => ask(query as CompiledQuery<Row>)),
      streamQuery: refuseToStream,
    };
    this.db = new Kysely<Schema>({
      dialect: new StatementDialect({
        connection,
        compiler: PostgresQueryCompiler,
        adapter: PostgresAdapter,
      }),
    });
  }

  get eras(): number {
    return this.#met.eras;
  }

  get eraChangedAt(): number {
    return this.#met.changedAt;
  }

  perform<Result>(steps: () => Steps<Result>): Promise<Result> {
    return drive(steps(), (query) => this.#alone((ask) => ask(query)));
  }

  transact<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#alone(async (ask) => {
      await ask(BEGIN);
      const result = await drive(steps(), ask);
      await ask(COMMIT);
      return result;
    });
  }

  /** A commit is answered when it is on the disk. */
  async flush(): Promise<void> {}

  async settledEvents(): Promise<number> {
    const { rows } = await sql<{ settled: number }>`select settled_events() as settled`.execute(this.db);
    return rows[0]?.settled ?? 0;
  }

  announce(): void {
    this.#announcer.announce();
  }

  call(target: string): void {
    this.#announcer.call(target);
  }

  async now(): Promise<number> {
    const { rows } = await sql<{ now: number }>`select ${this.words.now()} as now`.execute(this.db);
    return rows[0]?.now ?? Number.NaN;
  }

  async refusedTables(): Promise<readonly string[]> {
    const { rows } = await sql<{ name: string }>`select relname as name
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = ${this.#target.schema} and relkind = 'r' and relname = any(${tables})
        and not (has_table_privilege(pg_class.oid, 'insert') and has_table_privilege(pg_class.oid, 'update')
          and has_table_privilege(pg_class.oid, 'delete'))
      order by relname`.execute(this.db);
    return rows.map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#breaker.dispose();
    await this.#announcer[Symbol.asyncDispose]();
    await this.db.destroy();
    if (!this.#pool.ending) await this.#pool.end();
  }

  /** On a connection of its own, and again when the server has undone it in favour of others. */
  async #alone<Result>(work: (ask: Ask) => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      await this.#breaker.enter();
      const client = await this.#connect();
      try {
        const result = await work((query) => this.#execute(client, query));
        client.release();
        return result;
      } catch (error) {
        // What the connection is good for after an error is not worth finding out: a new one takes a millisecond.
        client.release(true);
        if (attempt === ATTEMPTS) throw error;
        if (lacksSchema(error) && this.#bringUpToDate !== null) await this.#migrate(this.#bringUpToDate);
        else if (isConflict(error)) await delay(Math.random() * PAUSE_MS * attempt);
        else throw error;
      }
    }
  }

  /** Under a supervisor that lives on, the database was replaced by an older or an empty one. */
  async #migrate(bringUpToDate: BringUpToDate): Promise<void> {
    const client = await this.#connect();
    try {
      await bringUpToDate(client, this.#target);
      client.release();
    } catch (error) {
      client.release(true);
      throw translatePostgresError(error, this.#target, "asking");
    }
  }

  async #connect(): Promise<PoolClient> {
    const began = performance.now();
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw this.#failed(translatePostgresError(error, this.#target, "reconnecting"), began);
    }
  }

  /** A server that answers with an error (a lock, a full table) does not hang. */
  #failed(error: unknown, began: number): unknown {
    const said = error instanceof StoreAway && error.cause instanceof DatabaseError;
    if (error instanceof StoreAway && !said) this.#breaker.failed(error, performance.now() - began);
    return error;
  }

  async #execute<Row>(client: PoolClient, query: CompiledQuery<Row>): Promise<QueryResult<Row>> {
    const began = performance.now();
    try {
      const { rows, rowCount } = await client.query({
        ...this.#names.of(query.sql),
        text: query.sql,
        values: query.parameters.map(storable),
      });
      return { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) };
    } catch (error) {
      throw this.#failed(translatePostgresError(error, this.#target, "asking"), began);
    }
  }
}

async function drive<Result>(steps: Steps<Result>, ask: Ask): Promise<Result> {
  let step = steps.next();
  while (step.done !== true) step = steps.next(await ask(step.value.compile()));
  return step.value;
}

/** PostgreSQL has no text with NUL in it; a record must not be lost for it. */
export function storable(value: unknown): unknown {
  return typeof value === "string" ? value.replaceAll("\0", "\u{FFFD}") : value;
}
