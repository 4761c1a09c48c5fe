/** One row per run; what each column means is said where the record is defined. */
export const sql = `
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
