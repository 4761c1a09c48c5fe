import { StateUnusable, StoreOutdated } from "../../errors.js";
import * as runs from "./migrations/0001-runs.js";
import * as runEvents from "./migrations/0002-run-events.js";
import * as origin from "./migrations/0003-origin.js";
import * as sessions from "./migrations/0004-sessions.js";
import * as sessionOfRun from "./migrations/0007-session-of-run.js";
import * as gateways from "./migrations/0008-gateways.js";
import * as commands from "./migrations/0009-commands.js";
import * as sessionMessages from "./migrations/0011-session-messages.js";
import * as acp from "./migrations/0012-acp.js";
import * as tasks from "./migrations/0013-tasks.js";

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

/** The limits of a run, and the limit that it hit. */
const LIMITS_SQL = `
alter table runs add column limits text check (limits is null or json_type(limits) = 'object');
alter table runs add column exit_limit text check (exit_limit is null or exit_limit in ('memory', 'pids'));
`;

/** The port of a service, and since when it listens there. Older services have neither. */
const SERVICES_SQL = `
alter table runs add column service text check (service is null or json_type(service) = 'object');

drop trigger runs_exited_is_final;
update runs set service = '{"port":null,"readyAt":null}' where kind = 'service';
create trigger runs_exited_is_final before update on runs when old.state = 'exited'
begin
  select raise(abort, 'an exited run never changes');
end;
`;

/** Adds the state directory's id to events. Older events get it from their runs, if those still exist. */
const WHOSE_SQL = `
alter table run_events add column state_id text;
update run_events set state_id = (select state_id from runs where runs.run_id = run_events.run_id);

create index runs_open_of_state on runs (state_id) where state <> 'exited';
`;

/** The time namespace in which the start times of a run's processes were read. Older rows have none. */
const TIME_NAMESPACE_SQL = `
alter table runs add column time_namespace text;
drop trigger runs_exited_is_final;
${sessionOfRun.exitedIsFinal(["state_id", "time_namespace"])}
`;

/** The run of a token (empty: the run is being started; null: the session's own token), and its expiry. */
const SESSION_TOKENS_SQL = `
alter table session_tokens add column run_id text;
alter table session_tokens add column expires_at integer;
create index session_tokens_of_run on session_tokens (run_id) where run_id is not null;
`;

/** The lowest schema version whose builds may use the store after a migration. NULL: only builds that know the migration. */
const COMPATIBILITY_SQL = `
alter table holdfast_migrations add column min_compatible integer;
`;

/** Forward only: an entry is never edited once it has been released, only followed by another. */
export const migrations: readonly Migration[] = [
  { id: 1, name: "runs", sql: runs.sql },
  { id: 2, name: "run-events", sql: runEvents.sql },
  { id: 3, name: "origin", sql: origin.sql },
  { id: 4, name: "sessions", sql: sessions.sql },
  { id: 5, name: "limits", sql: LIMITS_SQL },
  { id: 6, name: "services", sql: SERVICES_SQL },
  { id: 7, name: "session-of-run", sql: sessionOfRun.sql },
  { id: 8, name: "gateways", sql: gateways.sql },
  { id: 9, name: "commands", sql: commands.sql },
  { id: 10, name: "whose", sql: WHOSE_SQL },
  { id: 11, name: "session-messages", sql: sessionMessages.sql },
  { id: 12, name: "acp", sql: acp.sql },
  { id: 13, name: "tasks", sql: tasks.sql },
  { id: 14, name: "time-namespace", sql: TIME_NAMESPACE_SQL },
  { id: 15, name: "session-tokens", sql: SESSION_TOKENS_SQL },
  { id: 16, name: "compatibility", sql: COMPATIBILITY_SQL },
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
