import type { Process } from "../machine.js";
import type { Signaller } from "../signal.js";

/** Invariant 1: no stranger, and nothing of another machine, boot or container, is ever signalled. */
export function onlyOurs(by: Signaller, target: Process): string | null {
  const { pid } = target.identity;
  if (target.place !== by.place) return `${by.who} signalled ${pid} of another pid namespace`;
  if (target.runId === undefined) return `${by.who} signalled ${pid} (${target.what}), which is of no run`;
  if (by.runId !== null && target.runId !== by.runId)
    return `${by.who} signalled ${pid}, which is of another run`;
  return null;
}
