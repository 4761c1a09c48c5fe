import type {
  DatabaseConnection,
  DatabaseIntrospector,
  Dialect,
  DialectAdapter,
  Driver,
  QueryCompiler,
} from "kysely";

export interface DialectParts {
  readonly connection: DatabaseConnection;
  readonly compiler: new () => QueryCompiler;
  readonly adapter: new () => DialectAdapter;
}

/** Kysely writes the statements; connections and transactions are the engine's. */
export class StatementDialect implements Dialect {
  readonly #parts: DialectParts;

  constructor(parts: DialectParts) {
    this.#parts = parts;
  }

  createDriver(): Driver {
    const { connection } = this.#parts;
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
    return new this.#parts.compiler();
  }

  createAdapter(): DialectAdapter {
    return new this.#parts.adapter();
  }

  createIntrospector(): DatabaseIntrospector {
    throw new Error("the tables are known: they are not to be asked for");
  }
}

async function refuse(): Promise<never> {
  throw new Error("transactions are the engine's: use Engine.transact");
}

export function refuseToStream(): never {
  throw new Error("a statement held open would hold the store's snapshot; read in pages instead");
}
