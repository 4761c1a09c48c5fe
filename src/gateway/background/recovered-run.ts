import type { RunRecord } from "../../model/run.js";
import { resultTargets } from "../../tasks/reply-routing.js";
import { type TaskInput, taskKeyOfRun } from "../../tasks/tasks.js";

/**
 * The task of a run whose caller waited at a former gateway. Null: the run needs no task, or is not to continue.
 */
export function taskForRecoveredRun(run: RunRecord): TaskInput | null {
  const { runId, sessionId, agentId, backendId, kind, policy, imported, hiddenAt, command } = run;
  const { callerBound, onOrphan } = policy;
  const plain = kind === "task" && backendId === null && imported === null;
  if (!plain || callerBound || onOrphan === "terminate" || hiddenAt !== null) return null;
  return {
    runtime: "exec",
    key: taskKeyOfRun(runId),
    text: command,
    ownerSessionId: sessionId,
    agentId,
    runId,
    targets: resultTargets({
      mode: "run",
      parentSessionId: sessionId,
      requesterSessionId: null,
      origin: null,
    }),
  };
}
