import { RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Requester } from "../server/requester.js";

/**
 * Of a session's runs, a requester sees those begun at this time or later; of none, it is Infinity. Asked in one place for
 * everything it does. A run knows its session's key only, and a key may be taken again: the next one's runs begin later.
 */
export type Sees = (requester: Requester, sessionKey: string | null) => Promise<number>;

export async function isSeen(
  sees: Sees,
  requester: Requester,
  { sessionKey, createdAt }: RunRecord,
): Promise<boolean> {
  return createdAt >= (await sees(requester, sessionKey));
}

/** The same for one look at many runs: each session is asked about once. */
export function once(sees: Sees): Sees {
  const known = new Map<string | null, Promise<number>>();
  return (requester, sessionKey) => {
    const answer = known.get(sessionKey) ?? sees(requester, sessionKey);
    known.set(sessionKey, answer);
    return answer;
  };
}

/** The run, if the one who asks may see it. What is not there and what may not be seen answer alike. */
export async function visibleRun(
  supervisor: Supervisor,
  sees: Sees,
  requester: Requester,
  runId: string,
): Promise<RunRecord> {
  const record = await supervisor.getRun(runId);
  if (record === null || !(await isSeen(sees, requester, record))) throw new RunNotFound(runId);
  return record;
}
