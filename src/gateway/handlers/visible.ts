import { RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Requester } from "../server/requester.js";

/** Whether a requester sees the runs of a session (null: of none). Asked in one place for everything it does. */
export type Sees = (requester: Requester, sessionId: string | null) => Promise<boolean>;

/** The same for one look at many runs: each session is asked about once. */
export function once(sees: Sees): Sees {
  const known = new Map<string | null, Promise<boolean>>();
  return (requester, sessionId) => {
    const answer = known.get(sessionId) ?? sees(requester, sessionId);
    known.set(sessionId, answer);
    return answer;
  };
}

/** The run, if the one who asks may see it. What is not there and what may not be seen answer alike. */
export async function visibleRun(
  supervisor: Pick<Supervisor, "getRun">,
  sees: Sees,
  requester: Requester,
  runId: string,
): Promise<RunRecord> {
  const record = await supervisor.getRun(runId);
  if (record === null || !(await sees(requester, record.sessionId))) throw new RunNotFound(runId);
  return record;
}
