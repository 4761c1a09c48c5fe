import { SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from "kysely";
import type { DatabaseIntrospector, Dialect, DialectAdapter, Driver, Kysely, QueryCompiler } from "kysely";
import type { SqliteConnection } from "./connection.js";

/**
 * Kysely writes the statements; the connection runs them, prepared once. Transactions are the
 * connection's too: Kysely's begin deferred, and stay open while other callers get their turn.
 */
export class SqliteDialect implements Dialect {
  readonly #connection: SqliteConnection;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  createDriver(): Driver {
    const connection = this.#connection;
    return {
      init: async () => {},
      acquireConnection: async () => connection,
      releaseConnection: async () => {},
      beginTransaction: refuse,
      commitTransaction: refuse,
      rollbackTransaction: refuse,
      // Closing is for whoever opened.
      destroy: async () => {},
    };
  }

  createQueryCompiler(): QueryCompiler {
    return new SqliteQueryCompiler();
  }

  createAdapter(): DialectAdapter {
    return new SqliteAdapter();
  }

  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new SqliteIntrospector(db);
  }
}

async function refuse(): Promise<never> {
  throw new Error("transactions on SQLite are synchronous: use SqliteConnection.transaction");
}
