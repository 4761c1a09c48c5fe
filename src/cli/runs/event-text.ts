import type { RunEvent } from "../../store/run-event.js";
import { formatSize } from "../size.js";

/** What happened, in a few words. */
export function eventText(event: RunEvent): string {
  switch (event.type) {
    case "spawn":
      return `pid ${event.rootPid ?? "?"}, ${event.data.tier}`;
    case "output":
      return `${formatSize(event.data.stdout)} stdout, ${formatSize(event.data.stderr)} stderr so far`;
    case "cancel":
      return `${event.data.reason} by ${event.data.actor || "nobody"} (${event.data.requestId})`;
    case "exit":
      return `${event.data.reason}, ${event.data.signal ?? event.data.code ?? "status not known"}, emptiness ${event.data.emptiness}`;
    case "cleanup":
      return `${event.data.residue} leftover, ${event.data.survivors} surviving, by ${event.data.mode}`;
    case "escape":
      return event.data.residue.map(({ pid, kind, command }) => `${pid} ${command} (${kind})`).join(", ");
    case "attach":
      return `epoch ${event.data.epoch}: ${event.data.decision}`;
    case "reconcile":
      return `${event.data.action} by ${event.data.by}, epoch ${event.data.epoch}: ${event.data.why}`;
  }
}
