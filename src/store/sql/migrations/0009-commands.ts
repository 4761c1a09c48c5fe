/** What each column means is said where the records are defined. */
export const sql = `
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
