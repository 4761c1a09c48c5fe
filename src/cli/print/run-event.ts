import type { StreamName } from "../../anchor/host.js";
import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { RunEvent } from "../../model/run-event.js";
import { formatSize } from "../options/units.js";

/** An event in a few words. */
export function runEventText(event: RunEvent): string {
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
      return `${event.data.ended ?? event.data.residue} ended besides the leader, ${event.data.survivors} surviving, by ${event.data.mode}`;
    case "escape":
      return event.data.residue.map(describeSurvivor).join(", ");
    case "output-lost":
      return lostOutputText(event.data.lost, event.data.stream);
    case "ready":
      return `listens on port ${event.data.port}`;
    case "adopt":
      return adoptText(event.data);
    case "command":
      return commandText(event.data);
    case "permission":
      return `${event.data.verdict} by ${event.data.actor}: ${event.data.title} (${event.data.kind})`;
    case "turn":
      return `${event.data.turnId} ${event.data.outcome ?? "began"}, by ${event.data.actor}`;
    case "anchor-silent": {
      const { silentMs, continued, by } = event.data;
      const did = continued ? "it was sent SIGCONT" : "it could not be continued";
      return `its anchor did not answer for ${(silentMs / 1000).toFixed(1)} s; ${did} by ${by}`;
    }
    case "anchor-answers":
      return `its anchor answers again, ${(event.data.silentMs / 1000).toFixed(1)} s after SIGCONT`;
    case "attach":
      return `epoch ${event.data.epoch}: ${event.data.decision}`;
    case "store-unwritable": {
      const { by, since, until, why } = event.data;
      return `gateway ${by} could not write to the store for ${((until - since) / 1000).toFixed(1)} s: ${why}`;
    }
    case "reconcile":
      return `${event.data.action} by ${event.data.by}, epoch ${event.data.epoch}: ${event.data.why}`;
  }
}

export function lostOutputText(bytes: number, stream: StreamName): string {
  return `${bytes} bytes of ${stream} are missing: a spool file was truncated or removed`;
}

function commandText(data: Extract<RunEvent, { type: "command" }>["data"]): string {
  const { id, actor, by, target, outcome, error } = data;
  if (outcome === null) return `stop by ${actor}, handed over to ${target} by ${by} (${id})`;
  return `stop by ${actor} carried out by ${target}: ${outcome}${error === null ? "" : `, ${error}`} (${id})`;
}

function adoptText({ actor, pid, from, to }: Extract<RunEvent, { type: "adopt" }>["data"]): string {
  if (to !== null) return `process ${pid ?? "?"} and all below it became service ${to}, by ${actor}`;
  return from === null
    ? `it became a service, by ${actor}`
    : `process ${pid ?? "?"} of ${from} became this service, by ${actor}`;
}
