import { RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Requester } from "../server/requester.js";

/** Whether a requester may see runs of a session, asked in one place for everything it does. */
export type Sees = (requester: Requester, record: RunRecord) => Promise<boolean>;

/** The same for one look at many runs: each session is asked about once. */
export function once(sees: Sees): Sees {
  const known = new Map<string | null, Promise<boolean>>();
  return (requester, record) => {
    const answer = known.get(record.sessionKey) ?? sees(requester, record);
    known.set(record.sessionKey, answer);
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
  if (record === null || !(await sees(requester, record))) throw new RunNotFound(runId);
  return record;
}
