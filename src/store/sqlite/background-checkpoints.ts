import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { DatabaseSync, type DatabaseSyncInstance, type StatementSyncInstance } from "@photostructure/sqlite";
import { defaults } from "../../defaults.js";
import { PACKAGE_ROOT } from "../../home/package.js";

const THREAD = join(PACKAGE_ROOT, "dist/bundle/checkpoint-thread.cjs");

/** The bound of SQLite, which a checkpoint in the thread starts at too. */
const SQLITE_PAGES = 1_000;

/** Input of the thread, most of which it checks before it opens the database. */
export interface CheckpointThreadData {
  readonly path: string;
  /** The file that the gateway has open. */
  readonly device: bigint;
  readonly inode: bigint;
  /** A database in memory, with a table, that only the same copy of SQLite finds. */
  readonly memoryDatabase: string;
  readonly restartPages: number;
  readonly restartBusyMs: number;
}

/**
 * Makes the checkpoints of a WAL database in a thread of its own. Otherwise SQLite makes them within the commit that fills
 * the log: it copies a thousand pages and syncs two files, and the event loop waits. The thread is started when it is
 * needed, and ended when it is idle, because it takes 8 MB. If it fails, SQLite makes the checkpoints.
 *
 * The thread must use the copy of SQLite that is already loaded: the locks of two copies in one process do not exclude
 * each other. A thread that is started after an upgrade of the package may find another one.
 */
export class BackgroundCheckpoints {
  readonly #db: DatabaseSyncInstance;
  readonly #threadFile: string;
  readonly #memoryDatabase: DatabaseSyncInstance;
  readonly #threadData: CheckpointThreadData;
  readonly #readLog: StatementSyncInstance;
  #thread: Worker | null = null;
  #ended: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | null = null;
  #commits = 0;
  #requested = false;
  #stopped = false;

  constructor(db: DatabaseSyncInstance, path: string, threadFile = THREAD) {
    this.#db = db;
    this.#threadFile = threadFile;
    const { dev: device, ino: inode } = statSync(path, { bigint: true });
    const memoryDatabase = `file:/holdfast-${randomUUID()}?vfs=memdb`;
    this.#memoryDatabase = new DatabaseSync(memoryDatabase);
    this.#memoryDatabase.exec("create table same_copy (id)");
    const { storeLogRestartPages: restartPages, storeLogRestartMs: restartBusyMs } = defaults;
    this.#threadData = { path, device, inode, memoryDatabase, restartPages, restartBusyMs };
    this.#readLog = db.prepare("pragma wal_checkpoint(noop)");
    db.exec(`pragma wal_autocheckpoint = ${defaults.storeLogMaxPages}`);
  }

  /** Call after each commit. Never throws: what was committed stays committed. */
  readonly committed = (): void => {
    this.#commits += 1;
    if (this.#requested || this.#stopped || this.#commits % defaults.storeLogCheckCommits !== 0) return;
    try {
      const [state] = this.#readLog.all() as { log: number; checkpointed: number }[];
      if (state !== undefined && state.log - state.checkpointed >= SQLITE_PAGES) this.#request();
    } catch {
      this.#onFailed();
    }
  };

  /** Resolves when the thread has ended. SQLite then makes the checkpoints. */
  async close(): Promise<void> {
    this.#stopped = true;
    this.#endThread();
    await this.#ended;
    this.#memoryDatabase.close();
  }

  #request(): void {
    this.#requested = true;
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#thread ??= this.#startThread();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has none
    this.#thread.postMessage("checkpoint");
  }

  #startThread(): Worker {
    const thread = new Worker(this.#threadFile, {
      workerData: this.#threadData,
      resourceLimits: { maxYoungGenerationSizeMb: 1 },
    });
    thread.unref();
    thread.on("message", () => this.#onDone());
    thread.on("error", () => this.#onFailed());
    this.#ended = new Promise((resolve) => thread.once("exit", resolve));
    return thread;
  }

  #onDone(): void {
    this.#requested = false;
    this.#idle = setTimeout(() => this.#endThread(), defaults.storeLogIdleMs).unref();
  }

  #onFailed(): void {
    this.#stopped = true;
    this.#endThread();
    if (this.#db.isOpen) this.#db.exec(`pragma wal_autocheckpoint = ${SQLITE_PAGES}`);
  }

  #endThread(): void {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#thread?.postMessage(null);
    this.#thread = null;
  }
}
