import type { ProcessEvidence } from "../../anchor/host.js";
import type { RunRecord } from "../../model/run.js";

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
