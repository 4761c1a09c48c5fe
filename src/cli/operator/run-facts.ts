import type { RunRecord } from "../../model/run.js";

/** What is said, for programs, of the run that a process belongs to. */
export function runOwnerJson(record: RunRecord): object {
  const { runId, state, sessionKey, agentId, backendId, labels, command, tier, leaseEpoch } = record;
  return { runId, state, sessionKey, agentId, backendId, labels, command, tier, leaseEpoch };
}
