/**
 * Whose an event is, as its run says, and which open runs are whose, so that nobody has to read everybody's to find its
 * own. Events from before get it from the runs that are still there.
 */
export const sql = `
alter table run_events add column state_id text;
update run_events set state_id = (select state_id from runs where runs.run_id = run_events.run_id);

create index runs_open_of_state on runs (state_id) where state <> 'exited';
`;
