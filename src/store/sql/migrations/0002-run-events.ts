/**
 * What happened, in order. `autoincrement`: a number is never used again, not even after
 * its row was deleted to keep the table bounded, so a reader's cursor stays good for ever.
 * No foreign key: the story of a run may outlive its record.
 */
export const sql = `
create table run_events (
  seq         integer primary key autoincrement not null,
  run_id      text not null,
  type        text not null,
  at          integer not null,
  root_pid    integer,
  descendants integer not null,
  data        text not null
) strict;

-- Each entry ends with seq by itself: it is the row id.
create index run_events_of_run on run_events (run_id);
`;
