import { setTimeout as delay } from "node:timers/promises";
import type { DatabaseSyncInstance, StatementSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery, type DatabaseConnection, type QueryResult } from "kysely";
import { jitter } from "../../async/clock.js";
import { SerialQueue } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { isBusy, translateSqliteError } from "../../home/sqlite-errors.js";
import { rejectStreaming } from "../sql/engine.js";
import { LateValue } from "../sql/statement-cache.js";

// SQLite's own busy timeout sleeps in the calling thread, which would block the event loop and with it the output,
// deadlines and stops of every run. So handles have a busy timeout of 0, and this module waits for locks.

/** Executes `work`, and again while another process has the database locked, for at most `patienceMs`. */
export function retryWhileLocked<Result>(work: () => Result, patienceMs: number): Promise<Result> {
  return attempt(work, performance.now() + patienceMs);
}

/** The writes of one connection, in the order of the calls. No write overtakes one that waits for a lock. */
class WriteQueue {
  readonly #patienceMs: number;
  readonly #queue = new SerialQueue();
  #waiting = 0;
  readonly #closing = new AbortController();

  /** `patienceMs` counts from the call, so writes that wait for the same lock give up together. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** If no write waits, the first attempt is within the call. */
  async write<Result>(work: () => Result): Promise<Result> {
    const deadline = performance.now() + this.#patienceMs;
    if (this.#waiting === 0)
      try {
        return work();
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
    this.#waiting += 1;
    try {
      return await this.#queue.run(() => attempt(work, deadline, this.#closing.signal));
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Writes that wait are attempted once more, and refused if the database is still locked. */
  async close(): Promise<void> {
    this.#closing.abort();
    while (this.#waiting > 0) await this.#queue.idle();
  }
}

/** After an abort there is one more attempt. */
async function attempt<Result>(work: () => Result, deadline: number, signal?: AbortSignal): Promise<Result> {
  const { storeLockRetryMs, storeLockRetryMaxMs } = defaults;
  for (let pauseMs: number = storeLockRetryMs; ; pauseMs = Math.min(2 * pauseMs, storeLockRetryMaxMs)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline || signal?.aborted === true) throw error;
    }
    // Rejects when it is aborted.
    await delay(jitter(pauseMs), undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  }
}

/** Enough for all statements of this program; bounded, because callers combine filters. */
const STATEMENTS_KEPT = 256;

const BEGIN = CompiledQuery.raw("begin immediate");
const COMMIT = CompiledQuery.raw("commit");
const ROLLBACK = CompiledQuery.raw("rollback");

interface Prepared {
  readonly statement: StatementSyncInstance;
  /** Null: the statement returns no rows. */
  readonly toRows: ((found: unknown[]) => unknown[]) | null;
}

/**
 * One database handle with its prepared statements. A statement or transaction is executed within one call, so those of
 * this process cannot interleave. Between two attempts at a locked database the event loop runs.
 */
export class SqliteConnection implements DatabaseConnection {
  readonly #db: DatabaseSyncInstance;
  readonly #path: string;
  readonly #prepared = new Map<string, Prepared>();
  readonly #patienceMs: number;
  readonly #writes: WriteQueue;
  readonly #committed: () => void;

  /**
   * The handle's own busy timeout must be 0: `patienceMs` is how long locks of other processes are waited for. `committed`
   * is called after each commit.
   */
  constructor(
    db: DatabaseSyncInstance,
    path: string,
    patienceMs: number,
    committed: () => void = () => undefined,
  ) {
    this.#db = db;
    this.#committed = committed;
    this.#path = path;
    this.#patienceMs = patienceMs;
    this.#writes = new WriteQueue(patienceMs);
  }

  /** Executes statements that each are a transaction by themselves. */
  perform<Result>(work: () => Result): Promise<Result> {
    return this.#writes.write(() => this.#counted(work));
  }

  /** Executes `work` in a transaction, and again if the database is locked. */
  transact<Result>(work: () => Result): Promise<Result> {
    return this.#writes.write(() => this.#counted(() => this.#transaction(work)));
  }

  execute<Row>(query: CompiledQuery<Row>): QueryResult<Row> {
    try {
      const { statement, toRows } = this.#prepare(query.sql);
      const values = query.parameters.map((each) => (each instanceof LateValue ? each.read() : each));
      if (toRows !== null) return { rows: toRows(statement.all(...values)) as Row[] };
      const { changes, lastInsertRowid } = statement.run(...values);
      return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
    } catch (error) {
      throw translateSqliteError(error, this.#path);
    }
  }

  async close(): Promise<void> {
    await this.#writes.close();
    this.#prepared.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  /** For statements that only read. */
  executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    return retryWhileLocked(() => this.execute<Row>(query), this.#patienceMs);
  }

  streamQuery = rejectStreaming;

  #counted<Result>(commit: () => Result): Result {
    const result = commit();
    this.#committed();
    return result;
  }

  /** Takes the write lock first, so that a locked database is found before any work is done. */
  #transaction<Result>(work: () => Result): Result {
    this.execute(BEGIN);
    try {
      const result = work();
      this.execute(COMMIT);
      return result;
    } catch (error) {
      // After a full disk or an I/O error SQLite has already rolled back by itself.
      if (this.#db.isTransaction) this.execute(ROLLBACK);
      throw error;
    }
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql);
    if (known !== undefined) return known;
    const statement = this.#db.prepare(sql);
    const names = statement.columns().map(({ name }) => name);
    const prepared = { statement, toRows: names.length === 0 ? null : rowReader(sql, statement, names) };
    if (this.#prepared.size >= STATEMENTS_KEPT) this.#prepared.clear();
    this.#prepared.set(sql, prepared);
    return prepared;
  }
}

/**
 * Rows of many columns are read as arrays: the driver takes twice as long to make objects of them as it takes here,
 * where the objects of one statement share a hidden class. The columns of `select *` change when another process adds
 * one, so its rows are objects.
 */
function rowReader(
  sql: string,
  statement: StatementSyncInstance,
  names: readonly string[],
): (found: unknown[]) => unknown[] {
  if (sql.includes("*")) return (found) => found;
  statement.setReturnArrays(true);
  // V8 turns an object to which so many fields are added one by one into a hash table.
  const template = JSON.parse(
    JSON.stringify(Object.fromEntries(names.map((name) => [name, null]))),
  ) as object;
  return (found) =>
    found.map((values) => {
      const row: Record<string, unknown> = { ...template };
      for (const [at, name] of names.entries()) row[name] = (values as unknown[])[at];
      return row;
    });
}
