import type { SimulatedProcess } from "../parts/machine.js";
import type { SignalSender } from "../parts/signal.js";

/** Invariant 1: no stranger, and nothing of another machine, boot or container, is ever signalled. */
export function signalsOnlyOwnProcesses(by: SignalSender, target: SimulatedProcess): string | null {
  const { pid } = target.identity;
  if (target.place !== by.place) return `${by.who} signalled ${pid} of another pid namespace`;
  if (target.runId === undefined) return `${by.who} signalled ${pid} (${target.what}), which is of no run`;
  if (by.runId !== null && target.runId !== by.runId)
    return `${by.who} signalled ${pid}, which is of another run`;
  return null;
}
