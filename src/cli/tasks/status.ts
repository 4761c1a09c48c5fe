import type { AnswerOf } from "../../gateway/contract/contract.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { Target } from "../../store/task-record.js";
import type { Palette } from "../palette.js";

export type Task = AnswerOf<"getTask">["task"];

/** How a task stands or ended, in a word or two. */
export function statusOfTask({ status, outcome, stalledAt, missingSince }: Task): string {
  if (outcome === "blocked") return "blocked";
  if (missingSince !== null) return `${status}, missing`;
  return stalledAt === null ? status : `${status}, stalled`;
}

export function statusColour(task: Task, palette: Palette): (text: string) => string {
  switch (task.status) {
    case "queued":
    case "running":
      return palette.cyan;
    case "succeeded":
      return task.outcome === "blocked" ? palette.yellow : palette.green;
    case "cancelled":
      return palette.yellow;
    case "failed":
    case "timed_out":
    case "lost":
      return palette.red;
  }
}

export function targetText(target: Target): string {
  if (target.kind === "session") return `session ${target.sessionId}`;
  const { channel, address } = target;
  return sanitizeLine(address === null ? `channel ${channel}` : `channel ${channel} (${address})`);
}
