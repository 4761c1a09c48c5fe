/**
 * Sequence numbers are assigned before the commit, so events become visible out of order: a reader that has seen 13
 * before 12 is committed would never see 12. A lock from the number to the commit would serialize the writers of all
 * hosts, each waiting for the disk of the others. Instead every writer takes a shared advisory lock with the newest number
 * before it gets its own numbers. The lock blocks no other writer, ends with the transaction, and is visible to readers,
 * which read only up to the oldest of these locks.
 *
 * `settled_events` is correct because of its order. It reads the newest number first; later events are not read. Then it
 * reads the locks. A writer with a number up to the newest took its lock before. So either its lock is found, or its
 * transaction has ended; locks are released after the commit is visible, so the next statement finds its events.
 *
 * A lock's key has 31 bits for the number; the number nearest to the newest one is meant.
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
