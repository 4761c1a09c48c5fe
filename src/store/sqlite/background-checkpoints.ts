import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { DatabaseSyncInstance, StatementSyncInstance } from "@photostructure/sqlite";
import { defaults } from "../../defaults.js";
import { PACKAGE_ROOT } from "../../home/package.js";

const THREAD = join(PACKAGE_ROOT, "dist/bundle/checkpoint-thread.cjs");

/** The bound of SQLite, which a checkpoint in the thread starts at too. */
const SQLITE_PAGES = 1_000;

/**
 * Makes the checkpoints of a WAL database in a thread of its own. Otherwise SQLite makes them within the commit that fills
 * the log: it copies a thousand pages and syncs two files, and the event loop waits. The thread is started when it is
 * needed, and ended when it is idle, because it takes 8 MB. If it fails, SQLite makes the checkpoints.
 */
export class BackgroundCheckpoints {
  readonly #db: DatabaseSyncInstance;
  readonly #path: string;
  readonly #readLog: StatementSyncInstance;
  #thread: Worker | null = null;
  #ended: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | null = null;
  #commits = 0;
  #requested = false;
  #stopped = false;

  constructor(db: DatabaseSyncInstance, path: string) {
    this.#db = db;
    this.#path = path;
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
  }

  #request(): void {
    this.#requested = true;
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#thread ??= this.#startThread();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has none
    this.#thread.postMessage("checkpoint");
  }

  #startThread(): Worker {
    const { storeLogRestartPages: restartPages, storeLogRestartMs: restartBusyMs } = defaults;
    const thread = new Worker(THREAD, {
      workerData: { path: this.#path, restartPages, restartBusyMs },
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
    this.#thread = null;
    if (this.#db.isOpen) this.#db.exec(`pragma wal_autocheckpoint = ${SQLITE_PAGES}`);
  }

  #endThread(): void {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#thread?.postMessage(null);
    this.#thread = null;
  }
}
