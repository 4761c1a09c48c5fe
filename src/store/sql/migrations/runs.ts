/** One row per run; what each column means is said where the record is defined. */
export const RUNS_SQL = `
create table runs (
  run_id            text primary key not null,
  lease_id          text not null,
  session_key       text,
  backend_id        text,
  agent_id          text,
  labels            text not null check (json_type(labels) = 'object'),
  kind              text not null check (kind in ('task', 'service')),
  io                text not null check (io in ('pipe', 'pty')),
  command           text not null,
  command_hash      text not null,
  cwd               text not null,
  host_id           text not null,
  boot_id           text not null,
  pid_namespace     text not null,
  anchor_path       text not null,
  anchor_pid        integer,
  anchor_start_time integer,
  anchor_unique_id  text,
  root_pid          integer,
  root_start_time   integer,
  root_unique_id    text,
  process_group_id  integer,
  boundary          text,
  tier              text,
  state             text not null check (state in ('starting', 'running', 'exiting', 'exited')),
  owner_instance_id text not null,
  lease_epoch       integer not null,
  lease_expires_at  integer not null,
  deadlines         text not null,
  policy            text not null,
  created_at        integer not null,
  started_at        integer,
  last_output_at    integer,
  updated_at        integer not null,
  ended_at          integer,
  exit_reason       text,
  exit_actor        text,
  exit_code         integer,
  exit_signal       text,
  exit_source       text,
  exit_detail       text,
  exit_errno        integer,
  residue           text not null,
  residue_count     integer not null,
  usage             text,
  emptiness         text check (emptiness in ('proven', 'unproven')),
  check ((state = 'exited') = (ended_at is not null)),
  check ((state = 'exited') = (exit_reason is not null and exit_actor is not null and exit_source is not null)),
  check ((state = 'exited') = (emptiness is not null))
) strict;

-- Newest first, for people.
create index runs_by_age on runs (created_at, run_id);

-- Few runs live at once, many have ended: renewing leases and reconciling look at the few.
create index runs_live on runs (owner_instance_id) where state <> 'exited';

-- The last line of defence for "terminal records never change"; no statement of ours should ever meet it.
create trigger runs_exited_is_final before update on runs when old.state = 'exited'
begin
  select raise(abort, 'an exited run never changes');
end;
`;

/**
 * Everything that happened, in order. `autoincrement`: a number is never used again, not even after
 * its row was deleted to keep the table bounded, so a reader's cursor stays good for ever.
 * No foreign key: the story of a run may outlive its record.
 */
export const RUN_EVENTS_SQL = `
create table run_events (
  seq         integer primary key autoincrement not null,
  run_id      text not null,
  type        text not null,
  at          integer not null,
  root_pid    integer,
  descendants integer not null,
  data        text not null
) strict;

-- Each entry ends with seq by itself: it is the row id.
create index run_events_of_run on run_events (run_id);
`;

/**
 * A run can be taken over: its owner changes, its directory stays with the instance that started it.
 * Records imported from other tools carry what those had on file.
 */
export const ORIGIN_SQL = `
alter table runs add column origin_instance_id text not null default '';
alter table runs add column imported text check (imported is null or json_type(imported) = 'object');

drop trigger runs_exited_is_final;
update runs set origin_instance_id = owner_instance_id;
create trigger runs_exited_is_final before update on runs when old.state = 'exited'
begin
  select raise(abort, 'an exited run never changes');
end;

-- The oldest first, for retention.
create index runs_ended on runs (ended_at) where state = 'exited';
`;

/** The limits of a run, and the limit that it hit. */
export const LIMITS_SQL = `
alter table runs add column limits text check (limits is null or json_type(limits) = 'object');
alter table runs add column exit_limit text check (exit_limit is null or exit_limit in ('memory', 'pids'));
`;

/** The port of a service, and since when it listens there. Older services have neither. */
export const SERVICES_SQL = `
alter table runs add column service text check (service is null or json_type(service) = 'object');

drop trigger runs_exited_is_final;
update runs set service = '{"port":null,"readyAt":null}' where kind = 'service';
create trigger runs_exited_is_final before update on runs when old.state = 'exited'
begin
  select raise(abort, 'an exited run never changes');
end;
`;

/** Every column but `hidden_at`, so far. */
const FINAL = `
  run_id lease_id session_key session_id backend_id agent_id labels kind io command command_hash cwd
  host_id boot_id pid_namespace anchor_path anchor_pid anchor_start_time anchor_unique_id
  root_pid root_start_time root_unique_id process_group_id boundary tier state
  owner_instance_id origin_instance_id lease_epoch lease_expires_at deadlines policy limits service imported
  created_at started_at last_output_at updated_at ended_at
  exit_reason exit_actor exit_code exit_signal exit_source exit_detail exit_errno exit_limit
  residue residue_count usage emptiness`
  .trim()
  .split(/\s+/);

/** The last line of defence for "terminal records never change"; `added`: columns that have come later. */
export function exitedIsFinal(added: readonly string[] = []): string {
  const of = (row: "old" | "new"): string =>
    [...FINAL, ...added].map((column) => `${row}.${column}`).join(", ");
  return `create trigger runs_exited_is_final before update on runs
when old.state = 'exited' and not (
  old.hidden_at is null and new.hidden_at is not null and (${of("new")}) is (${of("old")})
)
begin
  select raise(abort, 'an exited run never changes');
end;`;
}

/**
 * A run belongs to a session, not to a key that another may take; and it can be hidden from lists, also when it has
 * ended: that is about lists, and changes nothing of how it ended.
 */
export const SESSION_OF_RUN_SQL = `
alter table runs add column session_id text;
alter table runs add column hidden_at integer;

drop trigger runs_exited_is_final;
update runs set session_id = (
  select id from sessions
  where key = runs.session_key and created_at <= runs.created_at and coalesce(closed_at, runs.created_at) >= runs.created_at
  order by created_at desc limit 1
) where session_key is not null;
${exitedIsFinal()}

create index runs_of_session_id on runs (session_id) where session_id is not null;
`;

/** Adds the state directory's id to events. Older events get it from their runs, if those still exist. */
export const WHOSE_SQL = `
alter table run_events add column state_id text;
update run_events set state_id = (select state_id from runs where runs.run_id = run_events.run_id);

create index runs_open_of_state on runs (state_id) where state <> 'exited';
`;

/** The time namespace in which the start times of a run's processes were read. Older rows have none. */
export const TIME_NAMESPACE_SQL = `
alter table runs add column time_namespace text;
drop trigger runs_exited_is_final;
${exitedIsFinal(["state_id", "time_namespace"])}
`;
