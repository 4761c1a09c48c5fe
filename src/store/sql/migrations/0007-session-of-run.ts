/** Every column but `hidden_at`, so far. */
const FINAL = `
  run_id lease_id session_key session_id backend_id agent_id labels kind io command command_hash cwd
  host_id boot_id pid_namespace anchor_path anchor_pid anchor_start_time anchor_unique_id
  root_pid root_start_time root_unique_id process_group_id boundary tier state
  owner_instance_id origin_instance_id lease_epoch lease_expires_at deadlines policy limits service imported
  created_at started_at last_output_at updated_at ended_at
  exit_reason exit_actor exit_code exit_signal exit_source exit_detail exit_errno exit_limit
  residue residue_count usage emptiness`
  .trim()
  .split(/\s+/);

/** The last line of defence for "terminal records never change"; `added`: columns that have come later. */
export function exitedIsFinal(added: readonly string[] = []): string {
  const of = (row: "old" | "new"): string =>
    [...FINAL, ...added].map((column) => `${row}.${column}`).join(", ");
  return `create trigger runs_exited_is_final before update on runs
when old.state = 'exited' and not (
  old.hidden_at is null and new.hidden_at is not null and (${of("new")}) is (${of("old")})
)
begin
  select raise(abort, 'an exited run never changes');
end;`;
}

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
${exitedIsFinal()}

create index runs_of_session_id on runs (session_id) where session_id is not null;
`;
