import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { NotificationTarget } from "../../model/task.js";
import type { Palette } from "../print/palette.js";

export type ShownTask = ResponseOf<"getTask">["task"];

/** How a task stands or ended, in a word or two. */
export function taskStatusText({ status, outcome, stalledAt, missingSince }: ShownTask): string {
  if (outcome === "blocked") return "blocked";
  if (missingSince !== null) return `${status}, missing`;
  return stalledAt === null ? status : `${status}, stalled`;
}

export function taskStatusColour(task: ShownTask, palette: Palette): (text: string) => string {
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

export function targetText(target: NotificationTarget): string {
  if (target.kind === "session") return `session ${target.sessionId}`;
  const { channel, address } = target;
  return sanitizeLine(address === null ? `channel ${channel}` : `channel ${channel} (${address})`);
}
