import {
  type Compilable,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  type QueryCompiler,
  type QueryResult,
  type RawBuilder,
  sql,
} from "kysely";
import type { Schema } from "../schema.js";
import type { Statements } from "./statement-cache.js";

/**
 * The statements of one call, written once for all databases. The engine executes each statement that the generator
 * yields and passes the result back, synchronously (SQLite) or asynchronously (PostgreSQL).
 */
export type Steps<Result> = Generator<Compilable, Result, QueryResult<unknown>>;

export function* fetchRows<Row>(query: Compilable<Row>): Steps<readonly Row[]> {
  return (yield query).rows as Row[];
}

/** How many rows a statement changed. */
export function* countChanged(statement: Compilable): Steps<number> {
  return Number((yield statement).numAffectedRows ?? 0n);
}

/** True if a statement changed a row. */
export function* hasChanged(statement: Compilable): Steps<boolean> {
  return (yield* countChanged(statement)) > 0;
}

/** SQL that differs between databases. */
export interface SqlDialect {
  /** Milliseconds on the store's clock, at the time of the statement. */
  now(): RawBuilder<number>;
  /** The members of a JSON object in a text column, as rows of `key` and `value`. */
  jsonEntries(column: string): RawBuilder<unknown>;
  /** The items of a JSON array in a text column, as rows of `value`. */
  jsonItems(column: string): RawBuilder<unknown>;
  /** The objects of a JSON array, as rows of `place` (from 1) and `text`, which is the JSON of the object as it was given. */
  jsonObjects(array: string): RawBuilder<unknown>;
  /** At the end of a select: the rows do not change until the transaction ends. */
  readonly lockShared: RawBuilder<unknown>;
  /** At the end of a select: locks the rows, and skips rows that another transaction has locked. */
  readonly lockSkipLocked: RawBuilder<unknown>;
  /** True if several hosts can use the store at once; then all leases, of every boot, are on one clock. */
  readonly shared: boolean;
}

/** A call that many callers make at the same time. If a statement costs a round trip, such calls share a statement. */
export interface GroupedCall<Call, Result> {
  readonly alone: (call: Call) => Promise<Result>;
  /** One statement for many calls. Undefined for a call: nothing was done, and the call is executed alone. */
  readonly together: (calls: readonly Call[]) => Promise<readonly (Result | undefined)[]>;
  /** Calls of different shapes are not executed together. Null: the call is executed alone. */
  readonly shapeOf: (call: Call) => string | null;
  /** Calls about the same record are not executed together. Null: they can be. */
  readonly recordOf: (call: Call) => string | null;
}

/** Reads a database. */
export interface Reader extends AsyncDisposable {
  readonly dialect: SqlDialect;
  readonly statements: Statements;
  /** Executes a query. `empty` is the result if the store has no tables yet. */
  read<Result>(query: (db: Kysely<Schema>) => Promise<Result>, empty: Result): Promise<Result>;
  /** Executes a call with others of its kind, if that is faster. If one fails, only that one fails. */
  group<Call, Result>(kind: GroupedCall<Call, Result>): (call: Call) => Promise<Result>;
  /** Every event up to this sequence number is committed, or never will be. Null: so is every event that can be read. */
  lastSettledEvent(): Promise<number | null>;
  now(): Promise<number>;
}

/** Reads and writes one database. */
export interface SqlEngine extends Reader {
  /** Builds statements. */
  readonly db: Kysely<Schema>;
  /** Counts the servers, databases or sets of tables that the store has been on; a new one may lack records. */
  readonly generation: number;
  /** When the generation changed, in wall-clock milliseconds; -Infinity: never since the store was opened. */
  readonly generationChangedAt: number;
  /** Executes steps; each statement is a transaction by itself. */
  perform<Result>(steps: () => Steps<Result>): Promise<Result>;
  /** Executes steps in one transaction. After a conflict with another transaction, they start again from the first. */
  transact<Result>(steps: () => Steps<Result>): Promise<Result>;
  /** The same, not at once: calls at the same time may share a transaction, but if the steps of one fail, only that call fails. */
  transactTogether<Result>(steps: () => Steps<Result>): Promise<Result>;
  /**
   * Executes steps in a transaction, and resolves when it survives power loss. Calls at the same time may share a
   * transaction, but if the steps of one fail, only that call fails.
   */
  transactDurably<Result>(steps: () => Steps<Result>): Promise<Result>;
  /** Resolves when everything committed before the call survives power loss. */
  flush(): Promise<void>;
  /** Notifies other processes that events were committed. */
  notifyEvents(): void;
  /** Notifies the target that something was committed for it. */
  notifyTarget(target: string): void;
  unwritableTables(): Promise<readonly string[]>;
}

/** The condition that each given column has the value, or one of the values. No value is an empty list. */
export function equals<Table extends keyof Schema>(
  table: Table,
  given: { readonly [Column in keyof Schema[Table]]?: string | number | readonly string[] | undefined },
): RawBuilder<boolean> {
  const values: Readonly<Record<string, unknown>> = given;
  const conditions = Object.entries(values).flatMap(([column, value]) => {
    if (value === undefined) return [];
    const name = sql.ref(`${table}.${column}`);
    if (!Array.isArray(value)) return [sql`${name} = ${value}`];
    // `in ()` is a syntax error in PostgreSQL.
    return [value.length === 0 ? sql`false` : sql`${name} in (${sql.join(value)})`];
  });
  return conditions.length === 0 ? sql<boolean>`true` : sql.join<boolean>(conditions, sql` and `);
}

/** Above every string that starts with `prefix`, in byte order. */
export function prefixUpperBound(prefix: string): string {
  return `${prefix}\u{10FFFF}`;
}

interface EngineDialectOptions {
  readonly connection: DatabaseConnection;
  readonly compiler: new () => QueryCompiler;
  readonly adapter: new () => DialectAdapter;
}

/** Kysely only builds statements; the engine has the connections and transactions. */
export class EngineDialect implements Dialect {
  readonly #parts: EngineDialectOptions;

  constructor(parts: EngineDialectOptions) {
    this.#parts = parts;
  }

  createDriver(): Driver {
    const { connection } = this.#parts;
    return {
      init: async () => {},
      acquireConnection: async () => connection,
      releaseConnection: async () => {},
      beginTransaction: rejectTransaction,
      commitTransaction: rejectTransaction,
      rollbackTransaction: rejectTransaction,
      // The engine closes its connection.
      destroy: async () => {},
    };
  }

  createQueryCompiler(): QueryCompiler {
    return new this.#parts.compiler();
  }

  createAdapter(): DialectAdapter {
    return new this.#parts.adapter();
  }

  createIntrospector(): DatabaseIntrospector {
    throw new Error("the schema is known: introspection is not supported");
  }
}

async function rejectTransaction(): Promise<never> {
  throw new Error("transactions are the engine's: use Engine.transact");
}

export function rejectStreaming(): never {
  throw new Error("a statement held open would hold the store's snapshot; read in pages instead");
}
