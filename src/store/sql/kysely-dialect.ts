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
    throw new Error("the tables are known: they are not to be asked for");
  }
}

async function rejectTransaction(): Promise<never> {
  throw new Error("transactions are the engine's: use Engine.transact");
}

export function rejectStreaming(): never {
  throw new Error("a statement held open would hold the store's snapshot; read in pages instead");
}
