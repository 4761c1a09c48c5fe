import { closeSync, fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";
import { Kysely, sql, SqliteAdapter, SqliteQueryCompiler } from "kysely";
import { hostMonotonicMs } from "../../async/clock.js";
import { SharedOperation } from "../../async/concurrency.js";
import { StateUnusable } from "../../errors.js";
import type { Schema } from "../schema.js";
import { LateValue, Statements } from "../sql/statement-cache.js";
import {
  EngineDialect,
  type GroupedCall,
  type SqlDialect,
  type SqlEngine,
  type Steps,
} from "../sql/engine.js";
import type { BackgroundCheckpoints } from "./background-checkpoints.js";
import { GroupCommit } from "./group-commit.js";
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
  readonly #syncs = new SharedOperation(() => this.#sync());

  constructor(storePath: string) {
    // SQLite locks the database and its -shm, never the -wal, so closing a descriptor of the -wal drops no lock.
    this.#path = `${storePath}-wal`;
  }

  /** Resolves when everything committed before the call is on the disk. */
  flush(): Promise<void> {
    return this.#syncs.run();
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
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

const CLOCK = new LateValue(hostMonotonicMs);

export const sqliteDialect: SqlDialect = {
  now: () => sql<number>`${CLOCK}`,
  jsonEntries: (column) => sql`json_each(${sql.ref(column)})`,
  jsonItems: (column) => sql`json_each(${sql.ref(column)})`,
  jsonObjects: (array) => sql`(select key + 1 as place, value as text from json_each(${array}))`,
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
  readonly statements = new Statements();
  readonly #connection: SqliteConnection;
  readonly #walSync: WalSync;
  readonly #checkpoints: BackgroundCheckpoints | null;
  readonly #groups: GroupCommit;
  readonly #durableGroups: GroupCommit;

  constructor(
    connection: SqliteConnection,
    walSync: WalSync,
    checkpoints: BackgroundCheckpoints | null = null,
  ) {
    this.#checkpoints = checkpoints;
    this.db = createSqliteKysely(connection);
    this.#connection = connection;
    this.#walSync = walSync;
    const commit = <Result>(work: () => Result): Promise<Result> => connection.transact(work);
    this.#groups = new GroupCommit({ commit, flush: null });
    this.#durableGroups = new GroupCommit({ commit, flush: () => walSync.flush() });
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

  transactTogether<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#groups.add(() => this.#drive(steps()));
  }

  transactDurably<Result>(steps: () => Steps<Result>): Promise<Result> {
    return this.#durableGroups.add(() => this.#drive(steps()));
  }

  flush(): Promise<void> {
    return this.#walSync.flush();
  }

  /** Not grouped: a statement costs no round trip. */
  group<Call, Result>({ alone }: GroupedCall<Call, Result>): (call: Call) => Promise<Result> {
    return alone;
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
    await this.#groups.close();
    await this.#durableGroups.close();
    await this.db.destroy();
    // Its thread uses the file until it has ended.
    await this.#checkpoints?.close();
    await this.#connection.close();
    this.#walSync.close();
  }

  #drive<Result>(steps: Steps<Result>): Result {
    let step = steps.next();
    while (step.done !== true) step = steps.next(this.#connection.execute(step.value.compile()));
    return step.value;
  }
}
