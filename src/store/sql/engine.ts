import type { Compilable, Kysely, QueryResult, RawBuilder } from "kysely";
import type { Schema } from "../schema.js";

/**
 * What a call does, statement by statement, said once for all databases: whoever drives it executes what it yields and
 * hands the answer back, at once (SQLite) or when it comes (PostgreSQL).
 */
export type Steps<Result> = Generator<Compilable, Result, QueryResult<unknown>>;

export function* fetchRows<Row>(query: Compilable<Row>): Steps<readonly Row[]> {
  return (yield query).rows as Row[];
}

/** How many rows a statement has changed. */
export function* countChanged(statement: Compilable): Steps<number> {
  return Number((yield statement).numAffectedRows ?? 0n);
}

/** What a database says in its own way. */
export interface SqlDialect {
  /** Milliseconds on the store's clock, at the time of the statement. */
  now(): RawBuilder<number>;
  /** The members of a JSON object in a text column, as rows of `key` and `value`. */
  jsonEntries(column: string): RawBuilder<unknown>;
  /** The items of a JSON array in a text column, as rows of `value`. */
  jsonItems(column: string): RawBuilder<unknown>;
  /** At the end of a select: what was read stays as it is until the transaction ends. */
  readonly lockShared: RawBuilder<unknown>;
  /** At the end of a select: what was read is this transaction's alone, and what is another's was passed over. */
  readonly lockSkipLocked: RawBuilder<unknown>;
  /** Whether many hosts can use it at once; then leases of all of them, and of every boot, are on one clock. */
  readonly shared: boolean;
}

/** One database, for whoever has statements to execute. */
export interface SqlEngine extends AsyncDisposable {
  /** Writes statements, and executes those that only read. */
  readonly db: Kysely<Schema>;
  readonly dialect: SqlDialect;
  /** How many servers, databases or sets of tables it has been on, one after the other: each may know less than the last. */
  readonly generation: number;
  /** When the newest of them was met; -Infinity: it is the one that was opened. */
  readonly generationChangedAt: number;
  /** Each statement is a transaction by itself. */
  perform<Result>(steps: () => Steps<Result>): Promise<Result>;
  /** All steps or none. They may be begun anew from the first when others were in the way. */
  transact<Result>(steps: () => Steps<Result>): Promise<Result>;
  /** Resolves when everything committed before the call survives power loss. */
  flush(): Promise<void>;
  /** Up to which sequence number every event is committed or never will be. Null: it is so for all that can be read. */
  lastSettledEvent(): Promise<number | null>;
  /** Events were committed: others may want to look. */
  notifyEvents(): void;
  /** Something was committed that is for this one to take up. */
  notifyTarget(target: string): void;
  now(): Promise<number>;
  unwritableTables(): Promise<readonly string[]>;
}

/** Above every string that starts with `prefix`, in byte order. */
export function prefixUpperBound(prefix: string): string {
  return `${prefix}\u{10FFFF}`;
}
