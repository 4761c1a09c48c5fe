import { type Clock, HIDDEN_STATE, isSameClock, type ProcessIdentity } from "../../model/process.js";
import type { ProcessEvidence } from "./evidence-types.js";

/** `unknown`: neither the presence nor the absence of the process is proven. */
export type Liveness = "alive" | "gone" | "unknown";

/** Judges with evidence from `here` whether a process identified `there` is alive. */
export function judgeLiveness(
  wanted: ProcessIdentity,
  there: Clock,
  found: ProcessEvidence | undefined,
  here: Clock,
): Liveness {
  if (found === undefined) return "unknown";
  // `state` does not help: a process whose first thread has ended is shown as a zombie while other threads run.
  if (!found.alive) return "gone";
  if (wanted.uniqueId !== null && found.identity.uniqueId !== null) return found.matches ? "alive" : "gone";
  // The start time is hidden, or was read with another clock.
  if (found.state === HIDDEN_STATE || !isSameClock(there, here)) return "unknown";
  return found.matches ? "alive" : "gone";
}
