import type { AnswerOf } from "../../gateway/contract/contract.js";
import { formatDuration } from "../duration.js";

export type TaskEvent = AnswerOf<"taskEvents">["events"][number];

/** What happened to a task, in a few words. It may hold what others have said. */
export function taskEventText({ type, data }: TaskEvent): string {
  const word = (name: string): string => {
    const value = data[name];
    return typeof value === "string" ? value : "";
  };
  const by = word("actor") === "" ? "" : `by ${word("actor")}`;
  switch (type) {
    case "created":
      return listed(word("runtime"), word("policy"));
    case "started":
      return "";
    case "progress":
      return word("text");
    case "stalled":
      return `nothing was heard of it for ${formatDuration(Number(data["silentMs"] ?? 0))}`;
    case "policy":
      return listed(`${word("from")} → ${word("to")}`, by);
    case "linked":
      return listed(word("runId"), word("turnId"), word("childSessionId"));
    case "missing":
      return "nobody is known to do it";
    case "ended":
      return listed(word("outcome") === "blocked" ? "blocked" : word("status"), by);
    case "refused":
      return `${listed(word("said"), word("status"))}: it ${word("why") === "ended" ? "has ended" : "has not begun"}`;
    case "retried":
    case "dismissed":
      return by;
    case "restored":
      return word("why");
  }
}

function listed(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(", ");
}
