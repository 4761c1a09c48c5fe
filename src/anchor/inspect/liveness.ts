import { isSameClock } from "../../home/machine-identity.js";
import type { ProcessIdentity, MachineIdentity, Survivor } from "../../model/process.js";
import type { ProcessEvidence } from "./types.js";

/** `unknown`: neither the presence nor the absence of the process is proven. */
export type Liveness = "alive" | "gone" | "unknown";

type Clock = Pick<MachineIdentity, "timeNamespace">;

/** True if a process identified on machine `there` can be distinguished from others `here`. */
export function isComparable({ uniqueId }: ProcessIdentity, there: Clock, here: Clock): boolean {
  return uniqueId !== null || isSameClock(there, here);
}

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

/** State of a process that exists but is hidden in /proc. */
export const HIDDEN_STATE = "?";

/** Describes a surviving process for users. */
export function describeSurvivor({ pid, kind, command }: Omit<Survivor, "startTime">): string {
  if (pid === 0) return "a process that cannot be inspected";
  return kind === "hidden" ? `${pid} (hidden: cannot be inspected)` : `${pid} ${command} (${kind})`;
}
