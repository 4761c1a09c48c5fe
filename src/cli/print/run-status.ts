import type { ProcessEvidence } from "../../anchor/host.js";
import type { MachineIdentity } from "../../model/process.js";
import { defaults } from "../../defaults.js";
import { isSameMachine } from "../../home/machine-identity.js";
import type { RunRecord } from "../../model/run.js";
import type { ReadStore } from "../../store/store.js";
import { formatDuration } from "../options/units.js";

/** How a run stands or ended, in a word or two. */
export function runStatusText({ state, exit }: Pick<RunRecord, "state" | "exit">): string {
  if (state !== "exited" || exit === null) return state;
  switch (exit.reason) {
    case "exit":
      return `exit ${exit.code ?? "?"}`;
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

/** How a run ended, for a caller that waited for it, while its record is not written. */
export function pendingRecordText({ runId, exit }: Pick<RunRecord, "runId" | "exit">, why: string): string {
  return `${runId} ${endText(exit)}; the store cannot be written (${why}), its record is pending`;
}

function endText(exit: RunRecord["exit"]): string {
  if (exit?.reason === "exit") return `ended with exit code ${exit.code ?? "unknown"}`;
  if (exit?.reason === "signal") return `was ended by signal ${exit.signal ?? "unknown"}`;
  return `has ended (${exit?.reason ?? "reason unknown"})`;
}

/** From where, and when on the store's clock, runs are looked at. */
export interface LeaseObserver {
  readonly here: MachineIdentity;
  readonly now: number;
  /** Then every lease is on this clock, whoever holds it. */
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
  /** For how long nothing has been heard of whoever looks after it; null: that cannot be told from here. */
  readonly silentMs: number | null;
}

/** What is worth saying of an open run besides its state: nobody is heard of who could look after it, or nobody does. */
export function ownerWarning(
  record: Pick<RunRecord, "state" | "hostId" | "bootId" | "pidNamespace" | "leaseExpiresAt">,
  { here, now, shared }: LeaseObserver,
): OwnerWarning | null {
  const expiredMs = now - record.leaseExpiresAt;
  if (record.state === "exited") return null;
  if (isSameMachine(record, here))
    return expiredMs < 0 ? null : { kind: "unowned", silentMs: expiredMs + defaults.leaseMs };
  // Of another boot, the lease was measured on another clock.
  if (!shared) return { kind: "unreachable", silentMs: null };
  return expiredMs < 0 ? null : { kind: "unreachable", silentMs: expiredMs + defaults.leaseMs };
}

export function ownerWarningText({ kind, silentMs }: OwnerWarning): string {
  return kind === "unreachable" && silentMs !== null
    ? `${kind}, last heard of ${formatDuration(silentMs)} ago`
    : kind;
}

export type StatusTone = "good" | "bad" | "live" | "ended";

export function statusTone({ state, exit }: Pick<RunRecord, "state" | "exit">): StatusTone {
  if (state !== "exited" || exit === null) return "live";
  if (exit.reason === "exit") return exit.code === 0 ? "good" : "bad";
  return exit.reason === "manual-cancel" || exit.reason === "shutdown" ? "ended" : "bad";
}

export type ServiceHealth = "ready" | "starting" | "not listening";

/** How a running service stands, by a look just now. Null: a task, or no port to judge it by. */
export function serviceHealth(
  { state, service }: Pick<RunRecord, "state" | "service">,
  ports: readonly number[],
): ServiceHealth | null {
  if (state !== "running" || service === null || service.port === null) return null;
  if (ports.includes(service.port)) return "ready";
  return service.readyAt === null ? "starting" : "not listening";
}

/** The same in words, with where it listens. Null: nothing to say. */
export function serviceHealthText(
  record: Pick<RunRecord, "state" | "service">,
  ports: readonly number[],
): string | null {
  if (record.service === null) return null;
  const health = serviceHealth(record, ports);
  const where = ports.length === 0 ? null : `on ${ports.join(", ")}`;
  return health === null && where === null ? null : [health, where].filter((part) => part !== null).join(" ");
}

/** Of all these processes, each once, ascending. */
export function listeningPorts(processes: ProcessEvidence["descendants"]): readonly number[] {
  return [...new Set(processes.flatMap(({ ports }) => ports))].toSorted((a, b) => a - b);
}
