import type { Measure } from "./maintenance.js";
import type { Happening } from "./transition.js";

/** A measure, for a person. */
export function shownMeasure(measure: Measure): {
  readonly taskId: string;
  readonly act: Measure["act"];
  readonly detail: string;
} {
  const { taskId, act } = measure;
  if (act === "forget") return { taskId, act, detail: "it ended long ago, and is forgotten" };
  if (act === "date")
    return {
      taskId,
      act,
      detail: `it may be forgotten after ${new Date(measure.cleanupAfter).toISOString()}`,
    };
  return { taskId, act, detail: detailOf(measure.happening) };
}

function detailOf(happening: Happening): string {
  switch (happening.type) {
    case "start":
      return "it has begun";
    case "finish":
      return `it has ended: ${happening.status}${happening.error === null ? "" : ` (${happening.error})`}`;
    case "missing":
      return "nobody is known to do it; it is lost if that stays so";
    case "found":
      return "somebody does it after all";
    case "stall":
      return `it has not been heard of for ${Math.round(happening.silentMs / 60_000)} min`;
    case "heartbeat":
      return "it is at work";
    case "progress":
    case "policy":
    case "link":
      return happening.type;
  }
}
