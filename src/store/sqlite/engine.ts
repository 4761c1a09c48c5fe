import { closeSync, fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";
import { Kysely, sql, SqliteAdapter, SqliteQueryCompiler } from "kysely";
import { hostMonotonicMs } from "../../async/clock.js";
import { StateUnusable } from "../../errors.js";
import type { Schema } from "../schema.js";
import { EngineDialect, type SqlDialect, type SqlEngine, type Steps } from "../sql/engine.js";
import type { SqliteConnection } from "./retrying-connection.js";

const syncToDisk = promisify(fdatasync);

/** Windows syncs only files that are open for writing. */
const SYNC_FLAGS = process.platform === "win32" ? "r+" : "r";

/**
 * Makes commits survive power loss, off the event loop. Calls during a sync share the next one. This gives the guarantee
 * of `synchronous = full` without blocking for each commit.
 */
export class WalSync {
  readonly #path: string;
  #descriptor: number | null = null;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(storePath: string) {
    // SQLite locks the database and its -shm, never the -wal, so closing a descriptor of the -wal drops no lock.
    this.#path = `${storePath}-wal`;
  }

  /** Resolves when everything committed before the call is on the disk. */
  flush(): Promise<void> {
    if (this.#running === null) return this.#begin();
    this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #begin(): Promise<void> {
    this.#next = null;
    this.#running = this.#sync().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #sync(): Promise<void> {
    try {
      this.#descriptor ??= openSync(this.#path, SYNC_FLAGS);
      await syncToDisk(this.#descriptor);
    } catch (cause) {
      const message = `${this.#path} could not be written to the disk; what was recorded last may not survive a power failure. The write will be repeated.`;
      throw new StateUnusable(this.#path, message, { cause });
    }
  }
}

export const sqliteDialect: SqlDialect = {
  now: () => sql<number>`${hostMonotonicMs()}`,
  jsonEntries: (column) => sql`json_each(${sql.ref(column)})`,
  jsonItems: (column) => sql`json_each(${sql.ref(column)})`,
  // SQLite has one writer at a time.
  lockShared: sql``,
  lockSkipLocked: sql``,
  shared: false,
};

export function createSqliteKysely(connection: SqliteConnection): Kysely<Schema> {
  const dialect = new EngineDialect({
    connection,
    compiler: SqliteQueryCompiler,
    adapter: SqliteAdapter,
  });
  return new Kysely<Schema>({ dialect });
}

/** Executes each call within one turn of the event loop, so that no other statement of this process comes in between. */
export class SqliteEngine implements SqlEngine {
  readonly generation = 1;
  readonly generationChangedAt = -Infinity;
  readonly dialect = sqliteDialect;
  readonly db: Kysely<Schema>;
  readonly #connection: SqliteConnection;
  readonly #walSync: WalSync;

  constructor(connection: SqliteConnection, walSync: WalSync) {
    this.db = createSqliteKysely(connection);
    this.#connection = connection;
    this.#walSync = walSync;
  }

  read<Result>(query: (db: Kysely<Schema>) => Promise<Result>): Promise<Result> {
    return query(this.db);
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

  /** Null: events get their numbers under the write lock, so they are committed in order. */
  async lastSettledEvent(): Promise<null> {
    return null;
  }

  /** Nothing to do: readers poll the file. */
  notifyEvents(): void {}

  notifyTarget(): void {}

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async unwritableTables(): Promise<readonly string[]> {
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
