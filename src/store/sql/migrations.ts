import { StateUnusable, StoreOutdated } from "../../errors.js";
import {
  ACP_CONTENT_SQL,
  ACP_SETTINGS_SQL,
  ACP_SQL,
  ACP_TURN_LIMITS_SQL,
  INPUT_DIGEST_SQL,
  PERMISSION_RULES_SQL,
} from "./migrations/acp.js";
import { COMMANDS_SQL, GATEWAYS_SQL } from "./migrations/gateways-and-remote-stops.js";
import {
  LIMITS_SQL,
  ORIGIN_SQL,
  RUN_EVENTS_SQL,
  RUNS_SQL,
  SERVICES_SQL,
  SESSION_OF_RUN_SQL,
  TIME_NAMESPACE_SQL,
  WHOSE_SQL,
} from "./migrations/runs.js";
import {
  SESSION_CLOSE_SQL,
  SESSION_MESSAGES_SQL,
  SESSION_TOKENS_SQL,
  SESSIONS_SQL,
} from "./migrations/sessions.js";
import { TASK_ORIGIN_SQL, TASKS_SQL } from "./migrations/tasks.js";

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

/** The lowest schema version whose builds may use the store after a migration. NULL: only builds that know the migration. */
const COMPATIBILITY_SQL = `
alter table holdfast_migrations add column min_compatible integer;
`;

/** Forward only: an entry is never edited once it has been released, only followed by another. */
export const migrations: readonly Migration[] = [
  { id: 1, name: "runs", sql: RUNS_SQL },
  { id: 2, name: "run-events", sql: RUN_EVENTS_SQL },
  { id: 3, name: "origin", sql: ORIGIN_SQL },
  { id: 4, name: "sessions", sql: SESSIONS_SQL },
  { id: 5, name: "limits", sql: LIMITS_SQL },
  { id: 6, name: "services", sql: SERVICES_SQL },
  { id: 7, name: "session-of-run", sql: SESSION_OF_RUN_SQL },
  { id: 8, name: "gateways", sql: GATEWAYS_SQL },
  { id: 9, name: "commands", sql: COMMANDS_SQL },
  { id: 10, name: "whose", sql: WHOSE_SQL },
  { id: 11, name: "session-messages", sql: SESSION_MESSAGES_SQL },
  { id: 12, name: "acp", sql: ACP_SQL },
  { id: 13, name: "tasks", sql: TASKS_SQL },
  { id: 14, name: "time-namespace", sql: TIME_NAMESPACE_SQL },
  { id: 15, name: "session-tokens", sql: SESSION_TOKENS_SQL },
  { id: 16, name: "compatibility", sql: COMPATIBILITY_SQL },
  { id: 17, name: "acp-turn-limits", sql: ACP_TURN_LIMITS_SQL, minCompatible: 16 },
  { id: 18, name: "session-close", sql: SESSION_CLOSE_SQL, minCompatible: 16 },
  { id: 19, name: "acp-settings", sql: ACP_SETTINGS_SQL, minCompatible: 16 },
  { id: 20, name: "permission-rules", sql: PERMISSION_RULES_SQL, minCompatible: 16 },
  { id: 21, name: "task-origin", sql: TASK_ORIGIN_SQL, minCompatible: 16 },
  { id: 22, name: "acp-content", sql: ACP_CONTENT_SQL, minCompatible: 16 },
  { id: 23, name: "input-digest", sql: INPUT_DIGEST_SQL, minCompatible: 16 },
];

/** All tables of a store, each after those that it refers to. */
export const TABLES: readonly string[] = migrations.flatMap(({ sql }) =>
  [...sql.matchAll(/create table (\w+)/g)].map(([, name = ""]) => name),
);

/** The columns of a table that this build knows. In a newer schema the table may have more. */
export function knownColumns(table: string): ReadonlySet<string> {
  return new Set(columnTypes(table).keys());
}

type ColumnTypes = ReadonlyMap<string, "text" | "bigint">;

const columnTypesByTable = new Map<string, ColumnTypes>();

/** The columns of a table that this build knows, with their types in PostgreSQL. */
export function columnTypes(table: string): ColumnTypes {
  let types = columnTypesByTable.get(table);
  if (types === undefined) columnTypesByTable.set(table, (types = readColumnTypes(table)));
  return types;
}

function readColumnTypes(table: string): ColumnTypes {
  const statements = migrations.map(({ sql }) => sql).join("\n");
  const [, body = ""] = new RegExp(`create table ${table} \\(([^;]*)`).exec(statements) ?? [];
  const created = body.matchAll(/^ +(\w+) +(text|integer)\b/gm);
  const added = statements.matchAll(new RegExp(`alter table ${table} add column (\\w+) (text|integer)`, "g"));
  return new Map(
    [...created, ...added].map(([, name = "", type]) => [name, type === "text" ? "text" : "bigint"]),
  );
}

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

/** For readers, which may not migrate. */
export function requireNoPendingMigrations({ path }: StoreLabel, [first]: readonly Migration[]): void {
  if (first === undefined) return;
  throw new StoreOutdated(
    path,
    `the store ${path} was written by an older Holdfast (schema ${first.id - 1}, this one reads ${SCHEMA_VERSION}); it was only going to be read, so nothing was changed. Any command that starts a run brings it up to date.`,
  );
}

/** The schema version of a store and its migrations, for an operator. */
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
