import type { ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { NotificationTarget } from "../../model/outbox.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { Palette } from "../print/colours-and-progress.js";

export type ShownTask = ResponseOf<"getTask">["task"];

/** The status of a task in a few words. */
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
  if (target.kind === "session")
    return `session ${target.sessionId}${target.wake === true ? " (wakes its agent)" : ""}`;
  const { channel, address, on } = target;
  const place = address === null ? `channel ${channel}` : `channel ${channel} (${address})`;
  return sanitizeLine(on === "end" ? `${place} at the end` : place);
}

/** The parameter for a task. The gateway resolves ids of runs, turns and sessions, and prefixes. */
export function taskParams(wanted: string): { readonly id: string } {
  if (wanted === "") throw new NotFound("task without a name");
  return { id: wanted };
}
