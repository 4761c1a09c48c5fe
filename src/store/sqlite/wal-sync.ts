import { closeSync, fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";
import { StateUnusable } from "../../errors.js";

const syncToDisk = promisify(fdatasync);

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
      this.#descriptor ??= openSync(this.#path, "r");
      await syncToDisk(this.#descriptor);
    } catch (cause) {
      const message = `${this.#path} could not be written to the disk; what was recorded last may not survive a power failure. The write will be repeated.`;
      throw new StateUnusable(this.#path, message, { cause });
    }
  }
}
