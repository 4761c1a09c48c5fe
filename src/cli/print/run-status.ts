import type { ProcessEvidence, StreamName } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { describeSurvivor, isSameMachine, type MachineIdentity } from "../../model/process.js";
import type { RunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { ReadStore } from "../../store/store.js";
import { formatExitCode } from "../../text/exit-code.js";
import { formatDuration, formatSize } from "../../text/format-units.js";

/** The state or outcome of a run in a few words. */
export function runStatusText({ state, exit }: Pick<RunRecord, "state" | "exit">): string {
  if (state !== "exited" || exit === null) return state;
  switch (exit.reason) {
    case "exit":
      return `exit ${exit.code === null ? "?" : formatExitCode(exit.code)}`;
    case "signal":
      return exit.signal ?? "signal";
    case "spawn-error":
    case "manual-cancel":
    case "overall-timeout":
    case "no-output-timeout":
    case "ownership-escape":
    case "owner-lost":
    case "lost":
    case "shutdown":
      return exit.reason;
  }
}

/** The outcome of a run whose record is not written yet. */
export function pendingRecordText({ runId, exit }: Pick<RunRecord, "runId" | "exit">, why: string): string {
  return `${runId} ${endText(exit)}; the store cannot be written (${why}), its record is pending`;
}

/** The signal or the exit code; null: neither is known. */
export function statusText({
  code,
  signal,
}: {
  readonly code: number | null;
  readonly signal: string | null;
}): string | null {
  return signal ?? (code === null ? null : formatExitCode(code));
}

function endText(exit: RunRecord["exit"]): string {
  if (exit?.reason === "exit")
    return `ended with exit code ${exit.code === null ? "unknown" : formatExitCode(exit.code)}`;
  if (exit?.reason === "signal") return `was ended by signal ${exit.signal ?? "unknown"}`;
  return `has ended (${exit?.reason ?? "reason unknown"})`;
}

/** The observer's machine, and the time on the clock of the store. */
export interface LeaseObserver {
  readonly here: MachineIdentity;
  readonly now: number;
  /** Every lease is on this clock, on whatever host. */
  readonly shared: boolean;
}

export async function leaseObserver(
  store: Pick<ReadStore, "now" | "shared">,
  here: MachineIdentity,
): Promise<LeaseObserver> {
  return { here, now: await store.now(), shared: store.shared };
}

export interface OwnerWarning {
  readonly kind: "unreachable" | "unowned";
  /** How long the owner has been silent; null: that cannot be determined from here. */
  readonly silentMs: number | null;
}

/** A warning about the owner of an open run: it is unreachable, or there is none. Null: there is no warning. */
export function ownerWarning(
  record: Pick<RunRecord, "state" | "hostId" | "bootId" | "pidNamespace" | "leaseExpiresAt">,
  { here, now, shared }: LeaseObserver,
): OwnerWarning | null {
  const expiredMs = now - record.leaseExpiresAt;
  if (record.state === "exited") return null;
  if (isSameMachine(record, here))
    return expiredMs < 0 ? null : { kind: "unowned", silentMs: expiredMs + defaults.leaseMs };
  // The lease of another boot was measured on another clock.
  if (!shared) return { kind: "unreachable", silentMs: null };
  return expiredMs < 0 ? null : { kind: "unreachable", silentMs: expiredMs + defaults.leaseMs };
}

export function ownerWarningText({ kind, silentMs }: OwnerWarning): string {
  return kind === "unreachable" && silentMs !== null
    ? `${kind}, last heartbeat ${formatDuration(silentMs)} ago`
    : kind;
}

type StatusTone = "good" | "bad" | "live" | "ended";

export function statusTone({ state, exit }: Pick<RunRecord, "state" | "exit">): StatusTone {
  if (state !== "exited" || exit === null) return "live";
  if (exit.reason === "exit") return exit.code === 0 ? "good" : "bad";
  return exit.reason === "manual-cancel" || exit.reason === "shutdown" ? "ended" : "bad";
}

export type ServiceHealth = "ready" | "starting" | "not listening";

/** The current health of a service. Null: it is a task, or a service without a port. */
export function serviceHealth(
  { state, service }: Pick<RunRecord, "state" | "service">,
  ports: readonly number[],
): ServiceHealth | null {
  if (state !== "running" || service === null || service.port === null) return null;
  if (ports.includes(service.port)) return "ready";
  return service.readyAt === null ? "starting" : "not listening";
}

/** The health in words, with the ports. Null: there is nothing to show. */
export function serviceHealthText(
  record: Pick<RunRecord, "state" | "service">,
  ports: readonly number[],
): string | null {
  if (record.service === null) return null;
  const health = serviceHealth(record, ports);
  const where = ports.length === 0 ? null : `on ${ports.join(", ")}`;
  return health === null && where === null ? null : [health, where].filter((part) => part !== null).join(" ");
}

/** The ports of all processes, each once, ascending. */
export function listeningPorts(processes: ProcessEvidence["descendants"]): readonly number[] {
  return [...new Set(processes.flatMap(({ ports }) => ports))].toSorted((a, b) => a - b);
}

/** An event in a few words. */
export function runEventText(event: RunEvent): string {
  switch (event.type) {
    case "spawn":
      return `pid ${event.rootPid ?? "?"}, ${event.data.tier}`;
    case "output":
      return `${formatSize(event.data.stdout)} stdout, ${formatSize(event.data.stderr)} stderr so far`;
    case "cancel":
      return `${event.data.reason} by ${event.data.actor || "an unknown actor"} (${event.data.requestId})`;
    case "exit":
      return `${event.data.reason}, ${statusText(event.data) ?? "status not known"}, emptiness ${event.data.emptiness}`;
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
  if (outcome === null) return `stop by ${actor}, forwarded to ${target} by ${by} (${id})`;
  return `stop by ${actor} carried out by ${target}: ${outcome}${error === null ? "" : `, ${error}`} (${id})`;
}

function adoptText({ actor, pid, from, to }: Extract<RunEvent, { type: "adopt" }>["data"]): string {
  if (to !== null) return `process ${pid ?? "?"} and its descendants became service ${to}, by ${actor}`;
  return from === null
    ? `it became a service, by ${actor}`
    : `process ${pid ?? "?"} of ${from} became this service, by ${actor}`;
}
