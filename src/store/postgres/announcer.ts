import type { Pool } from "pg";

export function eventChannel(schema: string): string {
  return `${schema}_events`;
}

/** Where gateways hear that one of them has something to take up. */
export function callChannel(schema: string): string {
  return `${schema}_calls`;
}

/**
 * Wakes those who listen for events, after the commit and apart from it: a NOTIFY inside the transaction would hold a
 * lock of the whole server until that transaction is on the disk, and so put all writers of all hosts in one queue.
 * One at a time; what comes meanwhile shares the next. Lost with its process, which is why nobody relies on it.
 */
export class Announcer implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #channel: string;
  readonly #callChannel: string;
  #called: Promise<unknown> = Promise.resolve();
  #underWay: Promise<void> | null = null;
  #again = false;

  constructor(pool: Pool, schema: string) {
    this.#pool = pool;
    this.#channel = eventChannel(schema);
    this.#callChannel = callChannel(schema);
  }

  call(target: string): void {
    this.#called = this.#called.then(() =>
      this.#pool.query("select pg_notify($1, $2)", [this.#callChannel, target]).catch(() => {}),
    );
  }

  announce(): void {
    this.#again = true;
    this.#underWay ??= this.#tell().finally(() => {
      this.#underWay = null;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#underWay, this.#called]);
  }

  /** The hint is where a reader may already go; it is not needed to read. */
  async #tell(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      await this.#pool.query("select pg_notify($1, settled_events()::text)", [this.#channel]).catch(() => {});
    }
  }
}
