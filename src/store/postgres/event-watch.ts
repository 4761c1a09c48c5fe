import type { Client } from "pg";
import { defaults } from "../../defaults.js";
import { callChannel, eventChannel } from "./announcer.js";
import type { ReadingOptions } from "./reading.js";
import { newClient, prepareSession, type SessionSettings } from "./session.js";
import { spread } from "../spread.js";
import { parseTarget, type PostgresHost, type PostgresTarget } from "./target.js";

/**
 * Says when there may be events to read, and nothing about them: whoever listens reads on from its own cursor. Said
 * after every announcement, after every connection that had to be made anew, and now and then without a reason, so
 * that a word that was lost costs time and nothing else. The hint is how far can be read already; null: not known.
 * `called` is told for whom there is something to take up; null: perhaps for anybody.
 */
export class EventWatch implements AsyncDisposable {
  readonly #target: PostgresTarget;
  readonly #name: string;
  readonly #wake: (hint: number | null) => void;
  readonly #called: (target: string | null) => void;
  readonly #poll: NodeJS.Timeout;
  #client: Client | null = null;
  /** The host to try next: the one of the last connection, or the one after it if that failed. */
  #host = 0;
  #again: NodeJS.Timeout | null = null;
  #pauseMs: number = defaults.storeRetryMs;
  #closed = false;

  constructor(
    options: ReadingOptions,
    wake: (hint: number | null) => void,
    pollMs: number = defaults.eventPollMs,
    called: (target: string | null) => void = () => {},
  ) {
    this.#target = parseTarget(options.url, options.schema);
    this.#name = options.name;
    this.#wake = wake;
    this.#called = called;
    this.#poll = setInterval(() => wake(null), pollMs).unref();
    void this.#listen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearInterval(this.#poll);
    if (this.#again !== null) clearTimeout(this.#again);
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    // A server that does not answer does not say good-bye either.
    const late = setTimeout(() => client.connection.stream.destroy(), defaults.storeAnswerMs);
    await client.end().catch(() => {});
    clearTimeout(late);
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const client = this.#newClient();
    if (client === null) return this.#tryAgain();
    this.#client = client;
    const calls = callChannel(this.#target.schema);
    client.on("notification", ({ channel, payload }) =>
      channel === calls ? this.#called(payload ?? null) : this.#wake(hintOf(payload)),
    );
    // The end follows, and says enough.
    client.on("error", () => {});
    client.on("end", () => this.#lost(client));
    try {
      await client.connect();
      // The store, which is opened first, has already checked the mode of a pooler.
      const { settings, host } = this.#session();
      const preparing = { target: this.#target, host, settings, standByWillDo: false, poolingChecked: true };
      await prepareSession(client, preparing);
      await client.query(`listen ${eventChannel(this.#target.schema)}; listen ${calls}`);
      this.#pauseMs = defaults.storeRetryMs;
      // What was announced while nobody listened.
      if (this.#closed) return;
      this.#wake(null);
      this.#called(null);
    } catch {
      await client.end().catch(() => {});
      this.#lost(client);
    }
  }

  #lost(client: Client): void {
    if (this.#client !== client) return;
    this.#client = null;
    this.#host += 1;
    this.#tryAgain();
  }

  /** Null: a certificate that the address names cannot be read, now. */
  #newClient(): Client | null {
    try {
      const { settings, host } = this.#session();
      return newClient(this.#target, host, settings);
    } catch {
      return null;
    }
  }

  #session(): { readonly settings: SessionSettings; readonly host: PostgresHost } {
    const { hosts } = this.#target;
    const host = hosts[this.#host % hosts.length] as PostgresHost;
    return { settings: { name: this.#name, readOnly: true }, host };
  }

  #tryAgain(): void {
    this.#again = setTimeout(() => void this.#listen(), spread(this.#pauseMs)).unref();
    this.#pauseMs = Math.min(2 * this.#pauseMs, defaults.storeRetryMaxMs);
  }
}

function hintOf(payload: string | undefined): number | null {
  const hint = Number(payload ?? "");
  return Number.isSafeInteger(hint) && hint > 0 ? hint : null;
}
