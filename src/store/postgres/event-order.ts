/**
 * Sequence numbers are given before the commit, so they become visible out of order: a reader that has seen 13 while
 * 12 was not yet committed would never see 12. To number under a lock that is held until the commit would make one
 * queue of all writers of all hosts, each waiting for the other's disk. Instead every writer says, before it is given
 * a number, how far the numbers had come: a shared lock that hinders nobody, ends with the transaction by whatever
 * death, and can be seen by readers. They read no further than the oldest of these.
 *
 * The order in `settled_events` is the proof. First the newest number: later ones are not read. Then the locks: whoever
 * was given a number up to the newest had its lock before, so it is seen, or its transaction is over and, since locks
 * are released after a commit has become visible, whatever it committed is found by the statement that comes next.
 *
 * A lock's key has 31 bits for the number; it is read as the nearest to the newest one.
 */
export function eventOrderDdl(schema: string): string {
  const half = 2 ** 30;
  const whole = 2 ** 31;
  return `
create function ${schema}.event_lock_class() returns integer language sql immutable
as $$ select hashtext('holdfast events of ${schema}') $$;

create function ${schema}.newest_event() returns bigint language sql volatile
as $$ select case when is_called then last_value else 0 end from ${schema}.run_events_seq_seq $$;

create function ${schema}.say_number_is_taken() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(${schema}.event_lock_class(), (${schema}.newest_event() % ${whole})::integer);
  return null;
end $$;

-- Once per statement, and before its first row is numbered.
create trigger run_events_in_order before insert on ${schema}.run_events
for each statement execute function ${schema}.say_number_is_taken();

create function ${schema}.settled_events() returns bigint language plpgsql volatile as $$
declare
  newest bigint := ${schema}.newest_event();
  behind bigint;
begin
  select max((newest - objid::bigint + ${half} + ${whole}) % ${whole} - ${half}) into behind
  from pg_locks
  where locktype = 'advisory' and objsubid = 2 and classid = ${schema}.event_lock_class()::oid
    and database = (select oid from pg_database where datname = current_database());
  return newest - greatest(coalesce(behind, 0), 0);
end $$;
`;
}
