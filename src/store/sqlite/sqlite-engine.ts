import { Kysely, SqliteAdapter, SqliteQueryCompiler } from "kysely";
import type { Schema } from "../schema.js";
import { StatementDialect } from "../sql/dialect.js";
import type { Engine } from "../sql/engine.js";
import type { Steps } from "../sql/steps.js";
import { hostMonotonicMs } from "./clock.js";
import type { SqliteConnection } from "./connection.js";
import type { WalSync } from "./wal-sync.js";
import { sqliteWords } from "./words.js";

export function composer(connection: SqliteConnection): Kysely<Schema> {
  const dialect = new StatementDialect({
    connection,
    compiler: SqliteQueryCompiler,
    adapter: SqliteAdapter,
  });
  return new Kysely<Schema>({ dialect });
}

/** Each call is executed within one turn of the event loop: nothing can come between its statements in this process. */
export class SqliteEngine implements Engine {
  readonly eras = 1;
  readonly eraChangedAt = -Infinity;
  readonly words = sqliteWords;
  readonly db: Kysely<Schema>;
  readonly #connection: SqliteConnection;
  readonly #walSync: WalSync;

  constructor(connection: SqliteConnection, walSync: WalSync) {
    this.db = composer(connection);
    this.#connection = connection;
    this.#walSync = walSync;
  }

  perform<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#connection.perform(() => this.#drive(steps()));
  }

  transact<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#connection.transact(() => this.#drive(steps()));
  }

  flush(): Promise<void> {
    return this.#walSync.flush();
  }

  /** Numbers are given under the lock that the commit releases. */
  async settledEvents(): Promise<null> {
    return null;
  }

  /** Whoever wants to know looks at the file. */
  announce(): void {}

  call(): void {}

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async refusedTables(): Promise<readonly string[]> {
    return [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.db.destroy();
    await this.#connection.close();
    this.#walSync.close();
  }

  #drive<Result>(steps: Steps<Result>): Result {
    let step = steps.next();
    while (step.done !== true) step = steps.next(this.#connection.execute(step.value.compile()));
    return step.value;
  }
}
