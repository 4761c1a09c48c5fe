/**
 * A run can be taken over: its owner changes, its directory stays with the instance that started it.
 * Records imported from other tools carry what those had on file.
 */
export const sql = `
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
