import type { DatabaseSyncInstance, StatementSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery } from "kysely";
import type { DatabaseConnection, QueryResult } from "kysely";
import { rejectStreaming } from "../sql/kysely-dialect.js";
import { translateSqliteError } from "../../home/sqlite-errors.js";
import { retryWhileLocked, WriteQueue } from "./write-queue.js";

/** Enough for all statements of this program; bounded, because callers combine filters. */
const STATEMENTS_KEPT = 256;

const BEGIN = CompiledQuery.raw("begin immediate");
const COMMIT = CompiledQuery.raw("commit");
const ROLLBACK = CompiledQuery.raw("rollback");

interface Prepared {
  readonly statement: StatementSyncInstance;
  readonly returnsRows: boolean;
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

  /** The handle's own busy timeout must be 0: `patienceMs` is how long locks of other processes are waited for. */
  constructor(db: DatabaseSyncInstance, path: string, patienceMs: number) {
    this.#db = db;
    this.#path = path;
    this.#patienceMs = patienceMs;
    this.#writes = new WriteQueue(patienceMs);
  }

  /** Executes statements that each are a transaction by themselves. */
  perform<Result>(work: () => Result): Promise<Result> {
    return this.#writes.write(work);
  }

  /** Executes `work` in a transaction, and again if the database is locked. */
  transact<Result>(work: () => Result): Promise<Result> {
    return this.#writes.write(() => this.#transaction(work));
  }

  execute<Row>(query: CompiledQuery<Row>): QueryResult<Row> {
    try {
      const { statement, returnsRows } = this.#prepare(query.sql);
      if (returnsRows) return { rows: statement.all(...query.parameters) as Row[] };
      const { changes, lastInsertRowid } = statement.run(...query.parameters);
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
    const prepared = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#prepared.size >= STATEMENTS_KEPT) this.#prepared.clear();
    this.#prepared.set(sql, prepared);
    return prepared;
  }
}
