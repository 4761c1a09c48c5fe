/**
 * Which run a token was issued for (empty: the run is being started; null: the session's own token), and when a token
 * ends. Rows from before are the session's own and have no end.
 */
export const sql = `
alter table session_tokens add column run_id text;
alter table session_tokens add column expires_at integer;
create index session_tokens_of_run on session_tokens (run_id) where run_id is not null;
`;
