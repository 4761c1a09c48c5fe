import { StateUnusable, StoreOutdated } from "../../errors.js";
import * as runs from "./migrations/0001-runs.js";
import * as runEvents from "./migrations/0002-run-events.js";
import * as origin from "./migrations/0003-origin.js";
import * as sessions from "./migrations/0004-sessions.js";
import * as limits from "./migrations/0005-limits.js";
import * as services from "./migrations/0006-services.js";
import * as sessionOfRun from "./migrations/0007-session-of-run.js";
import * as gateways from "./migrations/0008-gateways.js";
import * as commands from "./migrations/0009-commands.js";
import * as whose from "./migrations/0010-whose.js";
import * as sessionMessages from "./migrations/0011-session-messages.js";
import * as acp from "./migrations/0012-acp.js";
import * as tasks from "./migrations/0013-tasks.js";
import * as timeNamespace from "./migrations/0014-time-namespace.js";
import * as sessionTokens from "./migrations/0015-session-tokens.js";
import * as compatibility from "./migrations/0016-compatibility.js";

export interface Migration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
  /**
   * The lowest schema version whose builds can read and write the store after this migration. Expand, then contract:
   * one migration adds columns for the next release, with defaults, and a later one removes columns that the previous
   * release no longer uses. So from 17 on, every migration has a value below its own id. Builds before 16 do not know
   * this value, and refuse every newer schema.
   */
  readonly minCompatible?: number;
}

/** Forward only: an entry is never edited once it has been released, only followed by another. */
export const migrations: readonly Migration[] = [
  { id: 1, name: "runs", sql: runs.sql },
  { id: 2, name: "run-events", sql: runEvents.sql },
  { id: 3, name: "origin", sql: origin.sql },
  { id: 4, name: "sessions", sql: sessions.sql },
  { id: 5, name: "limits", sql: limits.sql },
  { id: 6, name: "services", sql: services.sql },
  { id: 7, name: "session-of-run", sql: sessionOfRun.sql },
  { id: 8, name: "gateways", sql: gateways.sql },
  { id: 9, name: "commands", sql: commands.sql },
  { id: 10, name: "whose", sql: whose.sql },
  { id: 11, name: "session-messages", sql: sessionMessages.sql },
  { id: 12, name: "acp", sql: acp.sql },
  { id: 13, name: "tasks", sql: tasks.sql },
  { id: 14, name: "time-namespace", sql: timeNamespace.sql },
  { id: 15, name: "session-tokens", sql: sessionTokens.sql },
  { id: 16, name: "compatibility", sql: compatibility.sql },
];

/** All tables of a store, each after those that it refers to. */
export const TABLES: readonly string[] = migrations.flatMap(({ sql }) =>
  [...sql.matchAll(/create table (\w+)/g)].map(([, name = ""]) => name),
);

/** The schema version of this build. */
export const SCHEMA_VERSION = Math.max(...migrations.map(({ id }) => id));

/** A migration as a store has recorded it. */
export interface AppliedMigration {
  readonly id: number;
  readonly name: string;
  /** Missing before migration 16. */
  readonly min_compatible?: number | null;
}

/** A store, as errors name it, and what to set to use another. */
export interface StoreLabel {
  readonly path: string;
  readonly otherwise: string;
}

export function otherProgramError({ path, otherwise }: StoreLabel): StateUnusable {
  return new StateUnusable(
    path,
    `${path} is a database of some other program; it is left as it is. Move it away, or ${otherwise}.`,
  );
}

/** The migrations that are not recorded. A newer store is refused unless it records that this build may use it. */
export function pendingMigrations(
  { path, otherwise }: StoreLabel,
  recorded: readonly AppliedMigration[],
): readonly Migration[] {
  const applied = new Set(recorded.map(({ id }) => id));
  const needed = Math.max(0, ...recorded.map(requiredVersion));
  if (needed > SCHEMA_VERSION) {
    const version = Math.max(...applied);
    const by = needed === version ? "" : ` for builds of schema ${needed} or later`;
    throw new StateUnusable(
      path,
      `the store ${path} was written by a newer Holdfast (schema ${version}${by}, this one knows ${SCHEMA_VERSION}); the store was not changed and nothing is started. Upgrade Holdfast, or ${otherwise}.`,
    );
  }
  return migrations.filter(({ id }) => !applied.has(id));
}

/** The schema version that a build must have to use a store with this migration. */
function requiredVersion({ id, min_compatible }: AppliedMigration): number {
  return id <= SCHEMA_VERSION ? 0 : (min_compatible ?? id);
}

/** For gateways with `database.migrate = "manual"`. `pending` null: the store has no tables. */
export function requireMigrated({ path }: StoreLabel, pending: readonly Migration[] | null): void {
  if (pending?.length === 0) return;
  const found = pending === null ? "has no tables yet" : `lacks ${pending.map(migrationName).join(", ")}`;
  throw new StoreOutdated(
    path,
    `the store ${path} ${found}, and database.migrate is manual: nothing was changed. Run \`holdfast store migrate\` first.`,
  );
}

function migrationName({ id, name }: Migration): string {
  return `migration ${id} (${name})`;
}

/** For readers, who may not migrate. */
export function requireNoPendingMigrations({ path }: StoreLabel, [first]: readonly Migration[]): void {
  if (first === undefined) return;
  throw new StoreOutdated(
    path,
    `the store ${path} was written by an older Holdfast (schema ${first.id - 1}, this one reads ${SCHEMA_VERSION}); it was only going to be read, so nothing was changed. Any command that starts a run brings it up to date.`,
  );
}

/** The schema version of a store and its migrations, for the operator who decides about migrating it. */
export interface MigrationStatus {
  /** Schema version of the store; null: it has no tables yet. */
  readonly schema: number | null;
  /** Schema version of this build. */
  readonly build: number;
  /** `minCompatible` null: builds that do not know the migration refuse the store afterwards. */
  readonly pending: readonly {
    readonly id: number;
    readonly name: string;
    readonly minCompatible: number | null;
  }[];
  /** Applied by a newer build, and compatible with this build. */
  readonly newer: readonly { readonly id: number; readonly name: string }[];
}

export function migrationStatus(
  label: StoreLabel,
  applied: readonly AppliedMigration[] | null,
): MigrationStatus {
  const pending = applied === null ? migrations : pendingMigrations(label, applied);
  return {
    schema: applied === null ? null : Math.max(0, ...applied.map(({ id }) => id)),
    build: SCHEMA_VERSION,
    pending: pending.map(({ id, name, minCompatible }) => ({
      id,
      name,
      minCompatible: minCompatible ?? null,
    })),
    newer: (applied ?? []).filter(({ id }) => id > SCHEMA_VERSION).map(({ id, name }) => ({ id, name })),
  };
}
