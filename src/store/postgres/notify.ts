import type { Pool } from "pg";

export function eventChannel(schema: string): string {
  return `${schema}_events`;
}

/** The channel that tells a gateway that something was committed for it. */
export function targetChannel(schema: string): string {
  return `${schema}_calls`;
}

/**
 * Notifies listeners of events after the commit. A NOTIFY inside the transaction would hold a lock of the whole server
 * until the commit is on disk, and serialize the writers of all hosts. One notification at a time; later ones share the
 * next. A notification can be lost with its process, so listeners also poll.
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

  /** The payload is the highest number that can be read; readers do not depend on it. */
  async #notifyPending(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      await this.#pool.query("select pg_notify($1, settled_events()::text)", [this.#channel]).catch(() => {});
    }
  }
}
