import { z } from "zod";
import { withTimeLimit } from "../../async/abort.js";
import type { SessionConnection } from "../session/session-connection.js";
import { isNotCarriedOut } from "../session/connect-session.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import { isoTime } from "../run-view.js";

/** A task as models see it. */
export const taskView = z.object({
  taskId: z.string(),
  work: z.enum(["acp", "subagent", "exec", "external"]),
  status: z.enum(["queued", "running", "succeeded", "failed", "timed_out", "cancelled", "lost"]),
  ended: z.boolean(),
  request: z.string(),
  runId: z.string().nullable().describe("the command; process reads its output"),
  turnId: z.string().nullable(),
  sessionId: z.string().nullable().describe("the session that does the work; sessions history reads it"),
  createdAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  progress: z.string().nullable(),
  result: z.string().nullable(),
  error: z.string().nullable(),
});

export function viewTask(task: TaskRecord): z.output<typeof taskView> {
  const { taskId, runtime, status, text, runId, turnId, childSessionId, progress, summary, error } = task;
  return {
    ...{ taskId, work: runtime, status, ended: isTaskEnded(status), request: text, runId, turnId },
    sessionId: childSessionId,
    createdAt: isoTime(task.createdAt),
    endedAt: isoTime(task.endedAt),
    ...{ progress, result: summary, error },
  };
}

/** Waits until a task has ended, the time is over, or the call is cancelled. Resolves with its newest record. */
export async function waitForTask(
  { client, followTask }: SessionConnection,
  taskId: string,
  waitMs: number,
  signal: AbortSignal,
  onChange: (task: TaskRecord) => void = () => undefined,
): Promise<TaskRecord> {
  using limited = withTimeLimit(signal, waitMs);
  const over = limited.signal;
  for (;;) {
    const { task } = await client.getTask({ params: { id: taskId } }, signal);
    if (isTaskEnded(task.status) || over.aborted) return task;
    onChange(task);
    try {
      // An event is a reason to read the task again. The stream ends with the task, or when the gateway is stopped.
      for await (const _ of followTask(task.taskId, task.seq, over)) break;
    } catch (error) {
      // The gateway may be stopped between the two requests.
      if (!over.aborted && !isNotCarriedOut(error)) throw error;
    }
  }
}
