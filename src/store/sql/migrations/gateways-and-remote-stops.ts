import { exitedIsFinal } from "./runs.js";

/**
 * Several hosts, and several state directories of a host, in one store: who they are, and whose a run is. What each
 * column means is said where the records are defined. Runs from before do not say of which state directory they are.
 */
export const GATEWAYS_SQL = `
create table hosts (
  host_id       text primary key not null,
  name          text not null,
  platform      text not null,
  first_seen_at integer not null,
  last_seen_at  integer not null
) strict;
insert into hosts (host_id, name, platform, first_seen_at, last_seen_at)
select host_id, '', '', min(created_at), max(updated_at) from runs group by host_id;

create table gateways (
  instance_id   text primary key not null,
  host_id       text not null,
  host_name     text not null,
  boot_id       text not null,
  pid_namespace text not null,
  state_id      text not null,
  directory     text not null,
  version       text not null,
  capabilities  text not null check (json_type(capabilities) = 'object'),
  address       text check (address is null or json_type(address) = 'object'),
  peer_key      text,
  started_at    integer not null,
  heartbeat_at  integer not null,
  stopped_at    integer
) strict;

alter table runs add column state_id text;
drop trigger runs_exited_is_final;
${exitedIsFinal(["state_id"])}
`;

/** The record definitions in src/model describe the columns. */
export const COMMANDS_SQL = `
create table commands (
  id             text primary key not null,
  run_id         text not null,
  target         text not null,
  kind           text not null check (kind in ('stop')),
  actor          text not null,
  grace_ms       integer,
  handed_over_by text not null,
  created_at     integer not null,
  accepted_at    integer,
  done_at        integer,
  outcome        text check (outcome in ('gone', 'ended-before', 'survivors', 'unknown', 'failed')),
  survivors      text not null check (json_type(survivors) = 'array'),
  error          text,
  check ((done_at is null) = (outcome is null))
) strict;

-- Few wait at once, many are done.
create index commands_waiting on commands (target, created_at) where done_at is null;
create index commands_of_run on commands (run_id) where done_at is null;
create index commands_by_age on commands (created_at);

create trigger commands_done_is_final before update on commands when old.done_at is not null
begin
  select raise(abort, 'a command that is done never changes');
end;
`;
