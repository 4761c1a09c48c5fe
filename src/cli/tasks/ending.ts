import { exitCodes } from "../print/exit-code.js";
import { formatDuration } from "../options/units.js";
import { taskStatusText, type ShownTask } from "./status.js";

/** The exit code of a command that has waited for a task. */
export function taskExitCode({ status, outcome }: Pick<ShownTask, "status" | "outcome">): number {
  switch (status) {
    case "succeeded":
      return outcome === "blocked" ? exitCodes.incomplete : 0;
    case "failed":
      return exitCodes.taskFailed;
    case "timed_out":
      return exitCodes.timeout;
    case "cancelled":
      return exitCodes.cancelled;
    // Nobody can say how it ended, or it has not.
    case "lost":
    case "queued":
    case "running":
      return exitCodes.failure;
  }
}

/** How a task has ended, for a person; its result is another matter. */
export function taskEndNotice(task: ShownTask): readonly [message: string, colour: "red" | "yellow" | "dim"] {
  const { taskId, label, startedAt, endedAt, error, status, outcome } = task;
  const took = startedAt === null || endedAt === null ? "" : ` after ${formatDuration(endedAt - startedAt)}`;
  const why = error === null ? "" : `: ${error.replaceAll(/\s+/g, " ")}`;
  const message = `${taskId} (${label}): ${taskStatusText(task)}${took}${why}`;
  if (status === "succeeded") return [message, outcome === "blocked" ? "yellow" : "dim"];
  return [message, status === "cancelled" ? "yellow" : "red"];
}
