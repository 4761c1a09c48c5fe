import type { DatabaseSyncInstance, StatementSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery } from "kysely";
import type { DatabaseConnection, QueryResult } from "kysely";
import { refuseToStream } from "../sql/dialect.js";
import { translateSqliteError } from "./errors.js";

/** Enough for every shape of statement this program has, filters included; a bound, because filters are the caller's. */
const STATEMENTS_KEPT = 256;

const BEGIN = CompiledQuery.raw("begin immediate");
const COMMIT = CompiledQuery.raw("commit");
const ROLLBACK = CompiledQuery.raw("rollback");

interface Prepared {
  readonly statement: StatementSyncInstance;
  readonly returnsRows: boolean;
}

/** One database handle with its prepared statements. Everything happens at once: calls cannot interleave. */
export class SqliteConnection implements DatabaseConnection {
  readonly #db: DatabaseSyncInstance;
  readonly #path: string;
  readonly #prepared = new Map<string, Prepared>();

  constructor(db: DatabaseSyncInstance, path: string) {
    this.#db = db;
    this.#path = path;
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

  /** All of `work` or nothing of it. The write lock is taken first: a lock taken on the way could not be waited for. */
  transaction<Result>(work: () => Result): Result {
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

  close(): void {
    this.#prepared.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    return this.execute<Row>(query);
  }

  streamQuery = refuseToStream;

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
