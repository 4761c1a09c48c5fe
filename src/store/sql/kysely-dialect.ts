import type {
  DatabaseConnection,
  DatabaseIntrospector,
  Dialect,
  DialectAdapter,
  Driver,
  QueryCompiler,
} from "kysely";

export interface EngineDialectOptions {
  readonly connection: DatabaseConnection;
  readonly compiler: new () => QueryCompiler;
  readonly adapter: new () => DialectAdapter;
}

/** Kysely writes the statements; connections and transactions are the engine's. */
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

async function rejectTransaction(): Promise<never> {
  throw new Error("transactions are the engine's: use Engine.transact");
}

export function rejectStreaming(): never {
  throw new Error("a statement held open would hold the store's snapshot; read in pages instead");
}
