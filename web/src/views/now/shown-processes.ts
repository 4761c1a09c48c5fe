import { signal } from "@preact/signals";
import { query } from "../../router/location.js";

/** Runs for which the choice of the link does not apply. */
const exceptions = signal<ReadonlySet<string>>(new Set());

/** The parameter of the link: processes of all runs are shown. */
export const PROCESSES = "processes";

export function areAllShown(): boolean {
  return query.value.get(PROCESSES) === "1";
}

export function areProcessesShown(runId: string): boolean {
  return areAllShown() !== exceptions.value.has(runId);
}

export function toggleProcesses(runId: string): void {
  const next = new Set(exceptions.peek());
  if (!next.delete(runId)) next.add(runId);
  exceptions.value = next;
}

export function forgetExceptions(): void {
  exceptions.value = new Set();
}
