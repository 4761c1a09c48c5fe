import type { Client, Pool } from "pg";
import { jitter, systemClock } from "../../async/clock.js";
import { SerialQueue } from "../../async/concurrency.js";
import { deferred } from "../../async/deferred.js";
import { parsePostgresUrl, type PostgresAddress, type PostgresHost } from "../../config/postgres-url.js";
import { defaults } from "../../defaults.js";
import { newClient, prepareSession, type SessionSettings } from "./prepare-connection.js";

function eventChannel(schema: string): string {
  return `${schema}_events`;
}

/** The channel on which a gateway is notified that something was committed for it. */
function targetChannel(schema: string): string {
  return `${schema}_calls`;
}

/**
 * Notifies listeners of events after the commit. A NOTIFY inside the transaction would hold a lock of the whole server
 * until the commit is on disk, and serialize the writers of all hosts. Events committed within a few milliseconds, such as
 * the start and the end of a short run, share one notification. A notification can be lost with its process, so listeners
 * also poll.
 */
export class PostgresNotifier implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #channel: string;
  readonly #targetChannel: string;
  readonly #targets = new SerialQueue();
  readonly #closing = deferred<void>();
  #running: Promise<void> | null = null;
  #again = false;

  constructor(pool: Pool, schema: string) {
    this.#pool = pool;
    this.#channel = eventChannel(schema);
    this.#targetChannel = targetChannel(schema);
  }

  notifyTarget(target: string): void {
    const notify = () => this.#pool.query("select pg_notify($1, $2)", [this.#targetChannel, target]);
    void this.#targets.run(notify).catch(() => {});
  }

  notifyEvents(): void {
    this.#again = true;
    this.#running ??= this.#notifyPending().finally(() => {
      this.#running = null;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.resolve();
    await Promise.all([this.#running, this.#targets.idle()]);
  }

  /** The payload is the highest number that can be read; readers do not depend on it. */
  async #notifyPending(): Promise<void> {
    while (this.#again) {
      await systemClock.sleep(defaults.eventNotifyDelayMs, this.#closing.promise);
      this.#again = false;
      await this.#pool.query("select pg_notify($1, settled_events()::text)", [this.#channel]).catch(() => {});
    }
  }
}

/**
 * Calls `wake` when there may be events to read: after every notification, after every reconnect, and at an interval, so
 * that a lost notification only costs time. The hint is the highest number that can be read; null: unknown. `called` gets
 * the target for which something was committed; null: perhaps for any target.
 */
export class EventWatch implements AsyncDisposable {
  readonly #address: PostgresAddress;
  readonly #name: string;
  readonly #wake: (hint: number | null) => void;
  readonly #onTarget: (target: string | null) => void;
  readonly #poll: NodeJS.Timeout;
  #client: Client | null = null;
  /** The host to try next: the one of the last connection, or the one after it if that failed. */
  #host = 0;
  #retryTimer: NodeJS.Timeout | null = null;
  #pauseMs: number = defaults.storeRetryMs;
  #closed = false;

  constructor(
    options: { readonly url: string; readonly schema?: string; readonly name: string },
    wake: (hint: number | null) => void,
    pollMs: number = defaults.eventPollMs,
    called: (target: string | null) => void = () => {},
  ) {
    this.#address = parsePostgresUrl(options.url, options.schema);
    this.#name = options.name;
    this.#wake = wake;
    this.#onTarget = called;
    this.#poll = setInterval(() => wake(null), pollMs).unref();
    void this.#listen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearInterval(this.#poll);
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    // A server that hangs does not close the connection either.
    const late = setTimeout(() => client.connection.stream.destroy(), defaults.storeAnswerMs);
    await client.end().catch(() => {});
    clearTimeout(late);
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const client = this.#newClient();
    if (client === null) return this.#retryLater();
    this.#client = client;
    const calls = targetChannel(this.#address.schema);
    client.on("notification", ({ channel, payload }) =>
      channel === calls ? this.#onTarget(payload ?? null) : this.#wake(hintOf(payload)),
    );
    // The event `end` follows.
    client.on("error", () => {});
    client.on("end", () => this.#onConnectionLost(client));
    try {
      await client.connect();
      // The store, which is opened first, has already checked the mode of a pooler.
      const { settings, host } = this.#session();
      const preparing = {
        target: this.#address,
        host,
        settings,
        acceptsStandby: false,
        poolingChecked: true,
      };
      await prepareSession(client, preparing);
      await client.query(`listen ${eventChannel(this.#address.schema)}; listen ${calls}`);
      this.#pauseMs = defaults.storeRetryMs;
      // Notifications may have been lost before the connection was made.
      if (this.#closed) return;
      this.#wake(null);
      this.#onTarget(null);
    } catch {
      await client.end().catch(() => {});
      this.#onConnectionLost(client);
    }
  }

  #onConnectionLost(client: Client): void {
    if (this.#client !== client) return;
    this.#client = null;
    this.#host += 1;
    this.#retryLater();
  }

  /** Null: a certificate that the address names cannot be read, now. */
  #newClient(): Client | null {
    try {
      const { settings, host } = this.#session();
      return newClient(this.#address, host, settings);
    } catch {
      return null;
    }
  }

  #session(): { readonly settings: SessionSettings; readonly host: PostgresHost } {
    const { hosts } = this.#address;
    const host = hosts[this.#host % hosts.length] as PostgresHost;
    return { settings: { name: this.#name, readOnly: true }, host };
  }

  #retryLater(): void {
    this.#retryTimer = setTimeout(() => void this.#listen(), jitter(this.#pauseMs)).unref();
    this.#pauseMs = Math.min(2 * this.#pauseMs, defaults.storeRetryMaxMs);
  }
}

function hintOf(payload: string | undefined): number | null {
  const hint = Number(payload ?? "");
  return Number.isSafeInteger(hint) && hint > 0 ? hint : null;
}
