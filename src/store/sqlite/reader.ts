import type { Kysely } from "kysely";
import { hostMonotonicMs } from "../../async/host-clock.js";
import { StateUnusable } from "../../errors.js";
import type { Schema } from "../schema.js";
import { composeReadStore } from "../sql/compose.js";
import type { Reader } from "../sql/engine.js";
import type { ReadStore } from "../store.js";
import { sqliteDialect } from "./engine.js";
import {
  type FileFingerprint,
  isSameFingerprint,
  openReadOnlyView,
  readFingerprint,
  type ReadOnlyView,
} from "./read-only-view.js";

/** A writer would have to start and finish inside every one of these reads. */
const READ_ATTEMPTS = 20;

/** Opens the file for reading. Creates nothing, not even a file. Null: the file has no tables yet. */
export async function openSqliteStoreForReading(path: string): Promise<ReadStore | null> {
  const reader = new SqliteReader(path);
  try {
    return (await reader.hasSchema()) ? composeReadStore(reader) : null;
  } catch (error) {
    await reader[Symbol.asyncDispose]();
    throw error;
  }
}

class SqliteReader implements Reader {
  readonly dialect = sqliteDialect;
  readonly #path: string;
  #view: ReadOnlyView | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async hasSchema(): Promise<boolean> {
    return readFingerprint(this.#path) !== null && (await this.read(async () => true, false));
  }

  async read<Result>(query: (db: Kysely<Schema>) => Promise<Result>, empty: Result): Promise<Result> {
    let lastError: unknown = null;
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt += 1) {
      const before = readFingerprint(this.#path);
      if (before === null) return empty;
      try {
        const { db } = await this.#currentView(before);
        const result = db === null ? empty : await query(db);
        if (before.log || isSameFingerprint(before, readFingerprint(this.#path))) return result;
      } catch (error) {
        if (isSameFingerprint(before, readFingerprint(this.#path))) throw error;
        lastError = error;
      }
    }
    throw new StateUnusable(
      this.#path,
      `${this.#path} changed during every attempt to read it; nothing was changed by reading. Try again.`,
      { cause: lastError },
    );
  }

  /** Null: a file is rolled back only together with its state directory. */
  async lastSettledEvent(): Promise<null> {
    return null;
  }

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const view = this.#view;
    this.#view = null;
    await view?.[Symbol.asyncDispose]();
  }

  /** The open view if it still shows this file, otherwise a new one. */
  async #currentView(at: FileFingerprint): Promise<ReadOnlyView> {
    if (this.#view?.isCurrent(at) === true) return this.#view;
    await this[Symbol.asyncDispose]();
    this.#view = await openReadOnlyView(this.#path, at);
    return this.#view;
  }
}
