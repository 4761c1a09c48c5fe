import { pathToFileURL } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery } from "kysely";
import type { Kysely } from "kysely";
import { defaults } from "../../defaults.js";
import type { Schema } from "../schema.js";
import { SqliteConnection } from "./connection.js";
import { translateSqliteError } from "./errors.js";
import { same } from "./fingerprint.js";
import type { Fingerprint } from "./fingerprint.js";
import { requireCurrentSchema } from "./migrate.js";
import { composer } from "./sqlite-engine.js";
import { untilUnlocked } from "./write-queue.js";

/**
 * Two ways to read a WAL database, and each is wrong where the other is right:
 * with a log beside it, the ordinary way, which sees what writers commit;
 * without one, as an immutable file, because the ordinary way would create the log and leave it behind.
 * Immutable means no locks, so what was read counts only if the file is afterwards what it was before.
 */
export function openReadOnly(path: string, of: Fingerprint, timeout: number): DatabaseSyncInstance {
  return new DatabaseSync(of.log ? path : immutable(path), { readOnly: true, timeout });
}

/** Waits on a timer while another process has the file locked. */
export function openView(path: string, of: Fingerprint): Promise<ReadOnlyView> {
  return untilUnlocked(() => new ReadOnlyView(path, of), defaults.storeBusyMs);
}

export class ReadOnlyView implements AsyncDisposable {
  /** Null: the file has no tables yet. */
  readonly db: Kysely<Schema> | null;
  readonly #of: Fingerprint;
  readonly #connection: SqliteConnection;

  constructor(path: string, of: Fingerprint) {
    this.#of = of;
    try {
      const handle = openReadOnly(path, of, 0);
      this.#connection = new SqliteConnection(handle, path, defaults.storeBusyMs);
      try {
        const current = requireCurrentSchema(handle, path) !== null;
        this.db = current ? composer(this.#connection) : null;
      } catch (error) {
        handle.close();
        throw error;
      }
    } catch (error) {
      throw translateSqliteError(error, path);
    }
  }

  shows(file: Fingerprint): boolean {
    if (this.#of.log !== file.log) return false;
    // An empty database is looked at afresh: a view of it has nothing to keep.
    if (this.db === null) return false;
    return file.log ? this.#of.inode === file.inode : same(this.#of, file);
  }

  /** The answer to a question that is no query of the store's: one value of a pragma or a count. */
  async value(sql: string): Promise<string | number | null> {
    const { rows } = await this.#connection.executeQuery<Record<string, string | number | null>>(
      CompiledQuery.raw(sql),
    );
    const [row] = rows;
    return Object.values(row ?? {})[0] ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.db?.destroy();
    await this.#connection.close();
  }
}

function immutable(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  return url;
}
