import type { ResponseOf } from "../../api/contract.js";
import { formatDuration } from "../options/units.js";

export type ShownTaskEvent = ResponseOf<"taskEvents">["events"][number];

/** What happened to a task, in a few words. It may hold what others have said. */
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
      return `nothing was heard of it for ${formatDuration(Number(data["silentMs"] ?? 0))}`;
    case "policy":
      return joinParts(`${word("from")} → ${word("to")}`, by);
    case "linked":
      return joinParts(word("runId"), word("turnId"), word("childSessionId"));
    case "missing":
      return "nobody is known to do it";
    case "ended":
      return joinParts(word("outcome") === "blocked" ? "blocked" : word("status"), by);
    case "refused":
      return `${joinParts(word("said"), word("status"))}: it ${word("why") === "ended" ? "has ended" : "has not begun"}`;
    case "retried":
    case "dismissed":
      return by;
    case "restored":
      return word("why");
  }
}

function joinParts(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(", ");
}
