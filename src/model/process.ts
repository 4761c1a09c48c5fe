import type { RecordOf } from "./record-type.js";
import type { processIdentitySchema, residueSchema, survivorSchema } from "./run-schema.js";

/** The machine, boot and namespace of a process. A process identity is valid only together with it. */
export interface MachineIdentity {
  readonly hostId: string;
  readonly bootId: string;
  readonly pidNamespace: string;
  /** The time namespace in which start times were read; another one shifts them. Null: unknown, or the kernel has none. */
  readonly timeNamespace: string | null;
}

/** The part of a machine's identity that start times of processes depend on. */
export type Clock = Pick<MachineIdentity, "timeNamespace">;

/** Identifies one process. A pid is reused, and pid and start time can collide within one clock tick. */
export type ProcessIdentity = RecordOf<typeof processIdentitySchema>;

/** A process of a run that was still alive after the attempt to stop the run. */
export type Survivor = RecordOf<typeof survivorSchema>;

/** A process that was alive when the leader ended by itself. */
export type Residue = RecordOf<typeof residueSchema>;

/** Compares identities of one boot and pid namespace. A unique id decides, because start times depend on the reader. */
export function isSameProcess(one: ProcessIdentity | null, other: ProcessIdentity | null): boolean {
  if (one === null || other === null || one.pid !== other.pid || one.uniqueId !== other.uniqueId)
    return false;
  return one.uniqueId !== null || one.startTime === other.startTime;
}

/** True if a pid means the same process on both. */
export function isSameMachine(
  one: Omit<MachineIdentity, "timeNamespace">,
  other: Omit<MachineIdentity, "timeNamespace">,
): boolean {
  return (
    one.hostId === other.hostId && one.bootId === other.bootId && one.pidNamespace === other.pidNamespace
  );
}

/**
 * True if start times of both can be compared. Namespaces with the same offsets show the same
 * times. A record of an older release, without a time namespace, counts as one without offsets.
 */
export function isSameClock(one: Clock, other: Clock): boolean {
  return offsetsOf(one.timeNamespace) === offsetsOf(other.timeNamespace);
}

function offsetsOf(timeNamespace: string | null): string {
  return timeNamespace?.replace(/^time:\[\d+\]/, "") ?? "";
}

/** True if a process identified on machine `there` can be distinguished from others `here`. */
export function isComparable({ uniqueId }: ProcessIdentity, there: Clock, here: Clock): boolean {
  return uniqueId !== null || isSameClock(there, here);
}

/** State of a process that exists but is hidden in /proc. */
export const HIDDEN_STATE = "?";

/** Describes a surviving process for users. */
export function describeSurvivor({ pid, kind, command }: Omit<Survivor, "startTime">): string {
  if (pid === 0) return "a process that cannot be inspected";
  return kind === "hidden" ? `${pid} (hidden: cannot be inspected)` : `${pid} ${command} (${kind})`;
}
