/** The record definitions in src/model describe the columns. */
export const SESSIONS_SQL = `
create table sessions (
  id                  text primary key not null,
  key                 text not null,
  agent_id            text,
  owner_session_key   text,
  spawned_by          text,
  parent_session_key  text,
  lineage             text not null check (json_type(lineage) = 'array'),
  backend             text,
  gateway_instance_id text not null,
  interaction_mode    text not null check (interaction_mode in ('run', 'interactive')),
  sandboxed           integer not null check (sandboxed in (0, 1)),
  visibility          text not null check (visibility in ('self', 'tree', 'agent', 'all')),
  exec_rules          text not null check (json_type(exec_rules) = 'array'),
  created_at          integer not null,
  closed_at           integer
) strict;

-- A key is free again once its session is closed.
create unique index sessions_open on sessions (key) where closed_at is null;

-- Newest first, for people.
create index sessions_by_age on sessions (created_at, id);

-- Whose a session is decides who sees it: not to be rewritten, by whatever mistake.
create trigger sessions_ownership_is_final
before update of id, key, agent_id, owner_session_key, spawned_by, parent_session_key, lineage, created_at on sessions
begin
  select raise(abort, 'whose a session is never changes');
end;
create trigger sessions_closed_is_final before update on sessions when old.closed_at is not null
begin
  select raise(abort, 'a closed session never changes');
end;

create table session_tokens (
  hash       text primary key not null,
  session_id text not null references sessions (id) on delete cascade,
  created_at integer not null
) strict;
create index session_tokens_of_session on session_tokens (session_id);

create table approvals (
  id                  text primary key not null,
  session_id          text not null references sessions (id) on delete cascade,
  gateway_instance_id text not null,
  executable          text not null,
  command             text not null,
  cwd                 text not null,
  rule                integer,
  asked_at            integer not null,
  expires_at          integer not null,
  verdict             text check (verdict in ('allow', 'deny', 'expired')),
  actor               text,
  decided_at          integer,
  check ((verdict is null) = (actor is null) and (verdict is null) = (decided_at is null))
) strict;
create index approvals_of_session on approvals (session_id);

-- Few are pending at once, many are decided.
create index approvals_pending on approvals (asked_at) where verdict is null;

create trigger approvals_decided_is_final before update on approvals when old.verdict is not null
begin
  select raise(abort, 'a decided approval never changes');
end;

-- What refers to a tombstone, and the runs of one session.
create index runs_of_session on runs (session_key) where session_key is not null;
`;

/** Messages of sessions, and the id with which an agent's own command resumes one. */
export const SESSION_MESSAGES_SQL = `
alter table sessions add column agent_session_id text;
-- How much was ever said, messages and turns: the next one's place.
alter table sessions add column messages integer not null default 0;

create table session_messages (
  id              text primary key not null,
  session_id      text not null references sessions (id) on delete cascade,
  seq             integer not null,
  role            text not null check (role in ('user', 'agent', 'system')),
  from_session_id text,
  actor           text not null,
  text            text not null,
  bytes           integer not null,
  run_id          text,
  cause           text,
  at              integer not null,
  deliver         text not null check (deliver in ('wake', 'next-turn')),
  turn_id         text,
  delivered_at    integer
) strict;
create unique index session_messages_in_order on session_messages (session_id, seq);
create unique index session_messages_once on session_messages (session_id, cause) where cause is not null;
create index session_messages_waiting on session_messages (session_id, seq) where delivered_at is null;
create index session_messages_of_run on session_messages (run_id) where run_id is not null;
create index session_messages_of_turn on session_messages (turn_id) where turn_id is not null;
create index session_messages_by_age on session_messages (at);

create trigger session_messages_are_final
before update of id, session_id, seq, role, from_session_id, actor, text, bytes, run_id, cause, at, deliver on session_messages
begin
  select raise(abort, 'what was said never changes');
end;
create trigger session_messages_are_taken_once before update of turn_id on session_messages when old.turn_id is not null
begin
  select raise(abort, 'a message goes with one turn');
end;
create trigger session_messages_are_delivered_once before update on session_messages when old.delivered_at is not null
begin
  select raise(abort, 'what was delivered never changes');
end;
`;

/** The actor and the reason of a close. */
export const SESSION_CLOSE_SQL = `
alter table sessions add column closed_by text;
alter table sessions add column close_reason text;
`;

/** The run of a token (empty: the run is being started; null: the session's own token), and its expiry. */
export const SESSION_TOKENS_SQL = `
alter table session_tokens add column run_id text;
alter table session_tokens add column expires_at integer;
create index session_tokens_of_run on session_tokens (run_id) where run_id is not null;
`;
