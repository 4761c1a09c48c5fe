/** What a run may use at most, and which of that it ran into. */
export const sql = `
alter table runs add column limits text check (limits is null or json_type(limits) = 'object');
alter table runs add column exit_limit text check (exit_limit is null or exit_limit in ('memory', 'pids'));
`;
