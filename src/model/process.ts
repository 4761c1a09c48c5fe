/** Where processes live. A process identity has a meaning only together with it. */
export interface MachineIdentity {
  readonly hostId: string;
  readonly bootId: string;
  readonly pidNamespace: string;
  /** The time namespace in which start times were read; another one shifts them. Null: unknown, or the kernel has none. */
  readonly timeNamespace: string | null;
}

/** Identifies one process. A pid is reused, and pid and start time can collide within one clock tick. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks since boot, as shown in the time namespace of the process that read it. */
  readonly startTime: number;
  /** The pidfd inode, unique per boot; null where the kernel has none. */
  readonly uniqueId: string | null;
}

/** A process of a run that was still alive after the attempt to stop the run. */
export interface Survivor {
  readonly pid: number;
  readonly startTime: number;
  readonly kind: string;
  readonly command: string;
}

/** Compares identities of one boot and pid namespace. A unique id decides, because start times depend on the reader. */
export function isSameProcess(one: ProcessIdentity | null, other: ProcessIdentity | null): boolean {
  if (one === null || other === null || one.pid !== other.pid || one.uniqueId !== other.uniqueId)
    return false;
  return one.uniqueId !== null || one.startTime === other.startTime;
}
