import type { RunEvent } from "../../api/types.js";
import { formatBytes } from "../../components/bytes.js";

interface EventText {
  readonly title: string;
  /** Null: the title says it all. */
  readonly detail: string | null;
}

/** An event of a run in a person's words. */
export function eventText(event: RunEvent): EventText {
  switch (event.type) {
    case "spawn":
      return { title: "Started", detail: `process ${event.rootPid ?? "?"}, ${event.data.tier}` };
    case "output":
      return {
        title: "Printed",
        detail: `${formatBytes(event.data.stdout)} of output and ${formatBytes(event.data.stderr)} of errors so far`,
      };
    case "cancel":
      return {
        title: "Asked to stop",
        detail: `by ${event.data.actor || "an unknown requester"}: ${event.data.reason}`,
      };
    case "exit":
      return { title: "Command ended", detail: exitText(event.data) };
    case "cleanup":
      return { title: "Cleaned up", detail: cleanupText(event.data) };
    case "escape":
      return {
        title: "Left processes behind",
        detail: event.data.residue.map(({ pid, command, kind }) => `${pid} ${command} (${kind})`).join(", "),
      };
    case "output-lost":
      return {
        title: "Output is missing",
        detail: `${formatBytes(event.data.lost)} of ${event.data.stream}: its file was truncated or removed`,
      };
    case "ready":
      return { title: "Ready", detail: `listens on port ${event.data.port}` };
    case "adopt":
      return { title: "Became a service", detail: `by ${event.data.actor}` };
    case "command":
      return {
        title: event.data.outcome === null ? "Stop passed on" : "Stop carried out",
        detail: [`by ${event.data.actor}`, event.data.outcome, event.data.error]
          .filter((part) => part !== null)
          .join(", "),
      };
    case "permission":
      return {
        title: `Permission: ${event.data.verdict}`,
        detail: `${event.data.title}, by ${event.data.actor}`,
      };
    case "turn":
      return { title: event.data.outcome === null ? "Turn began" : "Turn ended", detail: event.data.outcome };
    case "anchor-silent":
      return { title: "Anchor did not answer", detail: `for ${seconds(event.data.silentMs)}` };
    case "anchor-answers":
      return { title: "Anchor answers again", detail: `after ${seconds(event.data.silentMs)}` };
    case "attach":
      return { title: "Taken up again", detail: `${event.data.decision}, epoch ${event.data.epoch}` };
    case "store-unwritable":
      return { title: "Store could not be written", detail: event.data.why };
    case "reconcile":
      return { title: "Owner checked", detail: `${event.data.action}: ${event.data.why}` };
  }
}

function exitText({ reason, code, signal, emptiness }: Extract<RunEvent, { type: "exit" }>["data"]): string {
  const status = signal ?? (code === null ? "status not known" : `exit code ${code}`);
  const empty =
    emptiness === "proven" ? "nothing of it is left: proven" : "it is not proven that nothing of it is left";
  return `${reason === "exit" || reason === "signal" ? "" : `${reason}, `}${status}; ${empty}`;
}

function cleanupText({
  residue,
  ended = residue,
  survivors,
  mode,
}: Extract<RunEvent, { type: "cleanup" }>["data"]): string {
  if (ended === 0 && survivors === 0) return "no other process was left";
  const how = mode === "none" ? "" : ` (by ${mode})`;
  return `${ended} other ${ended === 1 ? "process" : "processes"} ended${how}${survivors === 0 ? "" : `, ${survivors} could not be stopped`}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
