/**
 * A run belongs to a session, not to a key that another may take; and it can be hidden from lists, also when it has
 * ended: that is about lists, and changes nothing of how it ended.
 */
export const sql = `
alter table runs add column session_id text;
alter table runs add column hidden_at integer;

drop trigger runs_exited_is_final;
update runs set session_id = (
  select id from sessions
  where key = runs.session_key and created_at <= runs.created_at and coalesce(closed_at, runs.created_at) >= runs.created_at
  order by created_at desc limit 1
) where session_key is not null;
create trigger runs_exited_is_final before update on runs
when old.state = 'exited' and not (
  old.hidden_at is null and new.hidden_at is not null
  and new.run_id = old.run_id and new.session_id is old.session_id and new.state = old.state
  and new.owner_instance_id = old.owner_instance_id and new.lease_epoch = old.lease_epoch
  and new.updated_at = old.updated_at and new.ended_at = old.ended_at and new.exit_reason = old.exit_reason
  and new.exit_code is old.exit_code and new.exit_signal is old.exit_signal and new.emptiness = old.emptiness
)
begin
  select raise(abort, 'an exited run never changes');
end;

create index runs_of_session_id on runs (session_id) where session_id is not null;
`;
