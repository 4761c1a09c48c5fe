/** Where a service is to listen, and since when it does. Services from before nobody said it of. */
export const sql = `
alter table runs add column service text check (service is null or json_type(service) = 'object');

drop trigger runs_exited_is_final;
update runs set service = '{"port":null,"readyAt":null}' where kind = 'service';
create trigger runs_exited_is_final before update on runs when old.state = 'exited'
begin
  select raise(abort, 'an exited run never changes');
end;
`;
