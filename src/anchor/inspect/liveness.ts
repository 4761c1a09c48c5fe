import { isSameClock } from "../../home/machine-identity.js";
import type { ProcessIdentity, MachineIdentity, Survivor } from "../../model/process.js";
import type { ProcessEvidence } from "../host.js";

/** `unknown`: neither its presence nor its absence is proven. */
export type Liveness = "alive" | "gone" | "unknown";

type Clock = Pick<MachineIdentity, "timeNamespace">;

/** Whether a process that was identified `there` can be told from others `here`. */
export function isComparable({ uniqueId }: ProcessIdentity, there: Clock, here: Clock): boolean {
  return uniqueId !== null || isSameClock(there, here);
}

/** What evidence from `here` says of a process that was identified `there`. */
export function judgeLiveness(
  wanted: ProcessIdentity,
  there: Clock,
  found: ProcessEvidence | undefined,
  here: Clock,
): Liveness {
  if (found === undefined) return "unknown";
  // Not by its state: a process whose first thread has ended is shown as a zombie while the others run.
  if (!found.alive) return "gone";
  if (wanted.uniqueId !== null && found.identity.uniqueId !== null) return found.matches ? "alive" : "gone";
  // Its start time is hidden, or was read by another clock.
  if (found.state === HIDDEN_STATE || !isSameClock(there, here)) return "unknown";
  return found.matches ? "alive" : "gone";
}

/** State of a process that exists and that /proc does not show. */
export const HIDDEN_STATE = "?";

/** A process that is left, for a person. */
export function describeSurvivor({ pid, kind, command }: Omit<Survivor, "startTime">): string {
  if (pid === 0) return "a process that cannot be looked at";
  return kind === "hidden" ? `${pid} (hidden: cannot be looked at)` : `${pid} ${command} (${kind})`;
}
