import type { TaskEvent } from "../model/task.js";
import { formatDuration } from "./format-units.js";

/** An event of a task in a few words. It may contain text of others. */
export function taskEventText({ type, data }: Pick<TaskEvent, "type" | "data">): string {
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
