import type { Pool } from "pg";

export function eventChannel(schema: string): string {
  return `${schema}_events`;
}

/** Where gateways hear that one of them has something to take up. */
export function targetChannel(schema: string): string {
  return `${schema}_calls`;
}

/**
 * Wakes those who listen for events, after the commit and apart from it: a NOTIFY inside the transaction would hold a
 * lock of the whole server until that transaction is on the disk, and so put all writers of all hosts in one queue.
 * One at a time; what comes meanwhile shares the next. Lost with its process, which is why nobody relies on it.
 */
export class PostgresNotifier implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #channel: string;
  readonly #targetChannel: string;
  #targetsNotified: Promise<unknown> = Promise.resolve();
  #running: Promise<void> | null = null;
  #again = false;

  constructor(pool: Pool, schema: string) {
    this.#pool = pool;
    this.#channel = eventChannel(schema);
    this.#targetChannel = targetChannel(schema);
  }

  notifyTarget(target: string): void {
    this.#targetsNotified = this.#targetsNotified.then(() =>
      this.#pool.query("select pg_notify($1, $2)", [this.#targetChannel, target]).catch(() => {}),
    );
  }

  notifyEvents(): void {
    this.#again = true;
    this.#running ??= this.#notifyPending().finally(() => {
      this.#running = null;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#running, this.#targetsNotified]);
  }

  /** The hint is where a reader may already go; it is not needed to read. */
  async #notifyPending(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      await this.#pool.query("select pg_notify($1, settled_events()::text)", [this.#channel]).catch(() => {});
    }
  }
}
