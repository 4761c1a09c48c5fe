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
