import { BadInput } from "../../errors.js";
import type { RunLimits } from "../../model/run.js";
import { checkLimits } from "../../supervisor/run-options.js";
import { formatSize } from "./units.js";

/** `1.5`, `100`. */
export function parseCount(text: string): number {
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text);
  throw new BadInput("limits", `${JSON.stringify(text)} is not a number`);
}

/** Rejects limits that no machine can set. */
export function validateLimit(name: keyof RunLimits, value: number): number {
  checkLimits({ [name]: value });
  return value;
}

/** `memory 64 MiB, 100 pids, 1.5 cpus`; null: none. */
export function limitsText({ memoryBytes, pids, cpus }: RunLimits): string | null {
  const parts = [
    memoryBytes === null ? null : `memory ${formatSize(memoryBytes)}`,
    pids === null ? null : `${pids} pids`,
    cpus === null ? null : `${cpus} cpus`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(", ");
}
