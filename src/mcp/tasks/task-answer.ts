import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import type { TaskRecord } from "../../model/task.js";
import { failureKindOf } from "../../queries/runs.js";
import type { SessionConnection } from "../session/session-connection.js";
import { outputText, stateText, viewOutput, viewRun } from "../run-view.js";
import type { ToolAnswer } from "../tool.js";

/** The answer that the call would have had if it had waited for the end of its task. */
export async function taskAnswer({ client }: SessionConnection, task: TaskRecord): Promise<ToolAnswer> {
  const { taskId, runtime, runId, childSessionId, turnId, summary, error, status } = task;
  const failed = status !== "succeeded";
  const text = (failed ? error : summary) ?? `the task is ${status}`;
  if (runtime !== "exec") return { text, data: { sessionId: childSessionId ?? "", turnId, taskId }, failed };
  try {
    const { run, output } = await client.poll({
      params: { runId: runId ?? "" },
      query: { maxChars: defaults.mcpOutputChars },
    });
    const stdout = viewOutput(output, "stdout");
    const stderr = viewOutput(output, "stderr");
    const failure = failureKindOf(run);
    return {
      text: [outputText(run.runId, stdout, stderr), `[${stateText(run, failure)}]`]
        .filter((part) => part !== "")
        .join("\n"),
      data: { run: viewRun(run), failure, taskId, stdout, stderr },
      failed: failure !== null,
    };
  } catch (cause) {
    // The run was removed before its task.
    if (!(cause instanceof HoldfastError) || cause.code !== "RUN_NOT_FOUND") throw cause;
    return { text, data: {}, failed: true };
  }
}
