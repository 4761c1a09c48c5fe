import type { MaintenanceAction } from "./plan-maintenance.js";
import type { TaskInputEvent } from "./transition.js";

/** A measure, for a person. */
export function describeAction(action: MaintenanceAction): {
  readonly taskId: string;
  readonly act: MaintenanceAction["act"];
  readonly detail: string;
} {
  const { taskId, act } = action;
  if (act === "forget") return { taskId, act, detail: "it ended long ago, and is forgotten" };
  if (act === "date")
    return {
      taskId,
      act,
      detail: `it may be forgotten after ${new Date(action.cleanupAfter).toISOString()}`,
    };
  return { taskId, act, detail: describeEvent(action.happening) };
}

function describeEvent(event: TaskInputEvent): string {
  switch (event.type) {
    case "start":
      return "it has begun";
    case "finish":
      return `it has ended: ${event.status}${event.error === null ? "" : ` (${event.error})`}`;
    case "missing":
      return "nobody is known to do it; it is lost if that stays so";
    case "found":
      return "somebody does it after all";
    case "stall":
      return `it has not been heard of for ${Math.round(event.silentMs / 60_000)} min`;
    case "heartbeat":
      return "it is at work";
    case "progress":
    case "policy":
    case "link":
      return event.type;
  }
}
