/** ACP sessions and turns. The columns are documented at the record types in src/model/. */
export const ACP_SQL = `
create table acp_sessions (
  session_id          text primary key not null references sessions (id) on delete cascade,
  gateway_instance_id text not null,
  agent               text,
  argv                text check (argv is null or json_type(argv) = 'array'),
  command             text not null,
  cwd                 text not null,
  mode                text not null check (mode in ('run', 'session')),
  rules               text not null check (json_type(rules) = 'array'),
  reap                text not null check (reap in ('asked', 'cancel', 'always')),
  state               text not null check (state in ('starting', 'ready', 'down', 'closing', 'closed')),
  run_id              text,
  tmpdir              text,
  agent_session_id    text,
  capabilities        text,
  kept_end            integer not null,
  sending             text,
  pending             text not null check (json_type(pending) = 'array'),
  last_seq            integer not null,
  version             integer not null,
  problem             text,
  created_at          integer not null,
  updated_at          integer not null,
  closed_at           integer,
  check ((state = 'closed') = (closed_at is not null))
) strict;

-- Few are open, many have been.
create index acp_sessions_open on acp_sessions (gateway_instance_id) where closed_at is null;
create index acp_sessions_by_age on acp_sessions (created_at, session_id);
create index acp_sessions_of_run on acp_sessions (run_id) where run_id is not null;

create trigger acp_sessions_closed_is_final before update on acp_sessions when old.state = 'closed'
begin
  select raise(abort, 'a closed session never changes');
end;

create table acp_turns (
  turn_id         text primary key not null,
  session_id      text not null references acp_sessions (session_id) on delete cascade,
  ordinal         integer not null,
  place           integer not null,
  state           text not null check (state in ('queued', 'running', 'ended')),
  prompt          text not null,
  asked_by        text not null,
  timeout_ms      integer,
  created_at      integer not null,
  started_at      integer,
  ended_at        integer,
  request_id      integer,
  before          text,
  cancel          text,
  outcome         text check (outcome in ('completed', 'cancelled', 'interrupted', 'cancel-unconfirmed', 'failed')),
  stop_reason     text,
  problem         text,
  result          text not null,
  tool_calls      text not null check (json_type(tool_calls) = 'array'),
  audit           text,
  context_lost    integer not null check (context_lost in (0, 1)),
  kept_bytes      integer not null,
  dropped_updates integer not null,
  check ((state = 'ended') = (outcome is not null) and (state = 'ended') = (ended_at is not null))
) strict;

create unique index acp_turns_in_order on acp_turns (session_id, ordinal);
create unique index acp_turns_in_history on acp_turns (session_id, place);
-- A session of many turns is not gone through for the next that waits.
create index acp_turns_waiting on acp_turns (session_id, state, place);
-- One prompt at a time.
create unique index acp_turns_running on acp_turns (session_id) where state = 'running';
create index acp_turns_ended on acp_turns (ended_at) where state = 'ended';

create trigger acp_turns_ended_is_final
before update of state, prompt, ended_at, cancel, outcome, stop_reason, problem, result, tool_calls on acp_turns
when old.state = 'ended'
begin
  select raise(abort, 'a turn that has ended never changes');
end;

create table acp_updates (
  session_id text not null references acp_sessions (session_id) on delete cascade,
  seq        integer not null,
  turn_id    text,
  type       text not null,
  at         integer not null,
  data       text not null,
  primary key (session_id, seq)
) strict;
create index acp_updates_of_turn on acp_updates (turn_id) where turn_id is not null;

create table acp_permissions (
  id           text primary key not null,
  session_id   text not null references acp_sessions (session_id) on delete cascade,
  turn_id      text,
  rpc_id       text not null,
  tool_call_id text not null,
  kind         text,
  title        text,
  options      text not null check (json_type(options) = 'array'),
  rule         integer,
  asked_at     integer not null,
  expires_at   integer not null,
  verdict      text check (verdict in ('allow', 'deny', 'cancelled', 'expired')),
  option_id    text,
  actor        text,
  decided_at   integer,
  answered     integer not null check (answered in (0, 1)),
  check ((verdict is null) = (actor is null) and (verdict is null) = (decided_at is null))
) strict;
create index acp_permissions_of_session on acp_permissions (session_id, asked_at);
create index acp_permissions_pending on acp_permissions (asked_at) where verdict is null;

create trigger acp_permissions_decided_is_final
before update of verdict, option_id, actor, decided_at on acp_permissions when old.verdict is not null
begin
  select raise(abort, 'a decided question never changes');
end;
`;

/** Turns without output, and answers that are longer than the kept text. */
export const ACP_TURN_LIMITS_SQL = `
alter table acp_turns add column no_output_timeout_ms integer;
alter table acp_turns add column stalled_at integer;
alter table acp_turns add column omitted_chars integer not null default 0;
`;

/** The agent's report about its session, and the settings that are made whenever the agent is started. */
export const ACP_SETTINGS_SQL = `
alter table acp_sessions add column agent_state text;
alter table acp_sessions add column settings text;
`;

/** Permission rules that operators added to sessions and agents. A revoked rule stays, because decisions name it. */
export const PERMISSION_RULES_SQL = `
create table acp_permission_rules (
  id            text primary key not null,
  scope         text not null check (scope in ('session', 'agent')),
  session_id    text references acp_sessions (session_id) on delete cascade,
  agent         text,
  effect        text not null check (effect in ('allow', 'reject', 'ask')),
  kind          text,
  title         text,
  exact         integer not null check (exact in (0, 1)),
  permission_id text,
  actor         text not null,
  created_at    integer not null,
  revoked_at    integer,
  revoked_by    text,
  check ((scope = 'session') = (session_id is not null) and (scope = 'agent') = (agent is not null)),
  check ((revoked_at is null) = (revoked_by is null))
) strict;
create index acp_permission_rules_of_session on acp_permission_rules (session_id) where session_id is not null;
create index acp_permission_rules_of_agent on acp_permission_rules (agent) where agent is not null;
`;

/** The MCP servers of a session, and the files of a prompt. */
export const ACP_CONTENT_SQL = `
alter table acp_sessions add column mcp_servers text not null default '[]';
alter table acp_turns add column content text;
`;

/** The digest of what a tool call executes, because a title may be only a description of it. */
export const INPUT_DIGEST_SQL = `
alter table acp_permissions add column input_digest text;
alter table acp_permission_rules add column input_digest text;
`;
