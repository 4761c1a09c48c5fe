import type { ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { NotificationTarget } from "../../model/outbox.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { formatDuration } from "../options/durations-and-sizes.js";
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

export type ShownTaskEvent = ResponseOf<"taskEvents">["events"][number];

/** An event of a task in a few words. It may contain text of others. */
export function taskEventText({ type, data }: ShownTaskEvent): string {
  const word = (name: string): string => {
    const value = data[name];
    return typeof value === "string" ? value : "";
  };
  const by = word("actor") === "" ? "" : `by ${word("actor")}`;
  switch (type) {
    case "created":
      return joinParts(word("runtime"), word("policy"));
    case "started":
      return "";
    case "progress":
      return word("text");
    case "stalled":
      return `no event for ${formatDuration(Number(data["silentMs"] ?? 0))}`;
    case "policy":
      return joinParts(`${word("from")} → ${word("to")}`, word("target"), by);
    case "linked":
      return joinParts(word("runId"), word("turnId"), word("childSessionId"));
    case "missing":
      return "no process is known to work on it";
    case "ended":
      return joinParts(word("outcome") === "blocked" ? "blocked" : word("status"), by);
    case "refused":
      return `${joinParts(word("said"), word("status"))}: it ${word("why") === "ended" ? "has ended" : "has not started"}`;
    case "retried":
      return joinParts(word("why"), word("channel"), by);
    case "dismissed":
      return by;
    case "restored":
      return word("why");
  }
}

function joinParts(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(", ");
}

/** The parameter for a task. The gateway resolves ids of runs, turns and sessions, and prefixes. */
export function taskParams(wanted: string): { readonly id: string } {
  if (wanted === "") throw new NotFound("task without a name");
  return { id: wanted };
}
