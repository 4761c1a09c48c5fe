/** Tasks and their notifications. The columns are documented at the record types in src/model/. */
export const TASKS_SQL = `
-- A notice is told until it is had; whatever else is said goes with one turn.
alter table session_messages add column in_vain integer not null default 0;
drop trigger session_messages_are_taken_once;
create trigger session_messages_are_taken_once before update of turn_id on session_messages
when old.turn_id is not null and not (new.turn_id is null and old.role = 'system' and old.deliver = 'next-turn')
begin
  select raise(abort, 'a message goes with one turn');
end;

create table tasks (
  task_id          text primary key not null,
  key              text,
  runtime          text not null check (runtime in ('acp', 'subagent', 'exec', 'external')),
  kind             text,
  owner_session_id text,
  child_session_id text,
  parent_task_id   text,
  agent_id         text,
  run_id           text,
  turn_id          text,
  label            text not null,
  task_text        text not null,
  status           text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'timed_out', 'cancelled', 'lost')),
  delivery         text not null check (delivery in ('pending', 'delivered', 'session_queued', 'failed', 'parent_missing', 'not_applicable')),
  policy           text not null check (policy in ('done_only', 'state_changes', 'silent')),
  targets          text not null check (json_type(targets) = 'array'),
  created_at       integer not null,
  started_at       integer,
  ended_at         integer,
  last_event_at    integer not null,
  progress         text,
  summary          text,
  outcome          text check (outcome in ('succeeded', 'blocked')),
  error            text,
  cleanup_after    integer,
  heartbeat_ms     integer,
  missing_since    integer,
  stalled_at       integer,
  noticed_at       integer,
  last_seq         integer not null,
  version          integer not null,
  check ((status in ('queued', 'running')) = (ended_at is null)),
  check ((status = 'succeeded') = (outcome is not null))
) strict;

create unique index tasks_by_key on tasks (key);
create index tasks_by_age on tasks (created_at, task_id);
create index tasks_of_status on tasks (status, created_at, task_id);
create index tasks_of_runtime on tasks (runtime, created_at, task_id);
create index tasks_of_owner on tasks (owner_session_id, created_at, task_id) where owner_session_id is not null;
create index tasks_of_child on tasks (child_session_id, created_at, task_id) where child_session_id is not null;
create index tasks_of_run on tasks (run_id) where run_id is not null;
-- Few are open, many have been.
create index tasks_open on tasks (created_at, task_id) where ended_at is null;
create index tasks_to_forget on tasks (cleanup_after) where cleanup_after is not null;

create trigger tasks_ended_is_final
before update of key, runtime, owner_session_id, status, policy, targets, created_at, started_at, ended_at, summary, outcome, error on tasks
when old.ended_at is not null
begin
  select raise(abort, 'a task that has ended never changes');
end;

create table task_events (
  task_id text not null references tasks (task_id) on delete cascade,
  seq     integer not null,
  at      integer not null,
  type    text not null,
  data    text not null check (json_type(data) = 'object'),
  primary key (task_id, seq)
) strict;

create table task_outbox (
  entry_key    text primary key not null,
  task_id      text not null references tasks (task_id) on delete cascade,
  target_key   text not null,
  kind         text not null check (kind in ('terminal', 'state')),
  target       text not null,
  notification text not null,
  status       text not null check (status in ('pending', 'delivered', 'session_queued', 'failed', 'parent_missing', 'dismissed')),
  attempts     integer not null,
  unheard      integer not null check (unheard between 0 and attempts),
  spent_ms     integer not null,
  created_at   integer not null,
  due_at       integer not null,
  lease_owner  text,
  lease_until  integer,
  error        text,
  receipt      text,
  settled_at   integer,
  check ((lease_owner is null) = (lease_until is null))
) strict;

create index task_outbox_due on task_outbox (due_at) where status = 'pending';
create index task_outbox_queued on task_outbox (created_at, entry_key) where status = 'session_queued';
create index task_outbox_queued_for on task_outbox (target_key, created_at, entry_key) where status = 'session_queued';
create index task_outbox_failed on task_outbox (status) where status = 'failed';
create index task_outbox_of_task on task_outbox (task_id);
create index task_outbox_states on task_outbox (task_id) where kind = 'state';
create index task_outbox_sending on task_outbox (lease_owner) where lease_owner is not null;
`;

/** The chat that the work was requested in, as JSON. */
export const TASK_ORIGIN_SQL = `
alter table tasks add column origin text;
`;
