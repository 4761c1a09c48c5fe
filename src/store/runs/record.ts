import { NO_LIMITS, REAPED_USAGE, type RunRecord } from "../../model/run.js";
import { type RunRow, runTable } from "../schema.js";

/** Fields that rows of older releases do not have. */
const OLD_POLICY = { onOrphan: "terminate", callerBound: false } as const;

export function toRunRecord(row: RunRow): RunRecord {
  const run = runTable.toRecord(row);
  // `limits` is NULL in rows of older releases.
  const limits = (run.limits as RunRecord["limits"] | null) ?? NO_LIMITS;
  const usage = run.usage === null ? null : { ...REAPED_USAGE, ...run.usage };
  return { ...run, policy: { ...OLD_POLICY, ...run.policy }, limits, usage };
}

export const COLUMNS_WITHOUT_LABELS = `
  run_id lease_id session_key session_id backend_id agent_id kind io command command_hash cwd
  host_id boot_id pid_namespace time_namespace state_id anchor_path anchor_pid anchor_start_time anchor_unique_id
  root_pid root_start_time root_unique_id process_group_id boundary tier state
  origin_instance_id owner_instance_id lease_epoch lease_expires_at deadlines policy limits
  created_at started_at last_output_at updated_at ended_at
  exit_reason exit_actor exit_code exit_signal exit_source exit_detail exit_errno exit_limit
  residue residue_count usage emptiness service imported hidden_at`
  .trim()
  .split(/\s+/) as readonly Exclude<keyof RunRow, "labels">[];
