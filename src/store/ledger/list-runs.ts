import type { RunRecord } from "../../model/run.js";
import type { RunFilter } from "../store.js";
import type { RunCopy } from "./ledger.js";

/** The runs of this state directory that match, newest first: those that are open, and those that ended lately. */
export async function listCopiedRuns(
  localCopy: Pick<RunCopy, "runIds" | "get">,
  filter: RunFilter,
): Promise<readonly RunRecord[]> {
  const records: RunRecord[] = [];
  for (const runId of await localCopy.runIds()) {
    const copied = await localCopy.get(runId);
    if (copied !== null && matchesRunFilter(copied.record, filter)) records.push(copied.record);
  }
  const newestFirst = records.toSorted((one, other) => other.createdAt - one.createdAt);
  return filter.limit === undefined ? newestFirst : newestFirst.slice(0, filter.limit);
}

/** The parts of a filter that a list for people has. */
export function matchesRunFilter(run: RunRecord, filter: RunFilter): boolean {
  const { states, hidden, hostIds, sessionKey, agentId, labels = {} } = filter;
  return (
    (states === undefined || states.includes(run.state)) &&
    (hostIds === undefined || hostIds.includes(run.hostId)) &&
    (hidden !== false || run.hiddenAt === null) &&
    (sessionKey === undefined || run.sessionKey === sessionKey) &&
    (agentId === undefined || run.agentId === agentId) &&
    Object.entries(labels).every(([key, value]) => run.labels[key] === value)
  );
}
