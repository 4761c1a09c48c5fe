/** What was said in sessions; and under which id an agent's own command can go on with one. */
export const sql = `
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
