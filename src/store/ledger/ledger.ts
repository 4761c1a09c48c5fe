import type { RunRecord } from "../../model/run.js";

/** A run as a shared store was last told of it. */
export interface CopiedRun {
  readonly record: RunRecord;
  /** No anchor has heard a later epoch from here: above the record's only while the store could not be told. */
  readonly anchorEpoch: number;
}

/**
 * What a shared store was told from this state directory, kept beside it: the store may be put back to a backup, the
 * runs are not. Open runs, and recent ends.
 */
export interface RunCopy {
  get(runId: string): Promise<CopiedRun | null>;
  /** Kept for later processes, too. An end survives power loss. */
  keep(copied: CopiedRun): Promise<void>;
  /** Kept for this process: not worth a write. */
  keepInMemory(copied: CopiedRun): void;
  /** Forget ends. What is open stays. */
  deleteEnded(runIds: readonly string[]): Promise<void>;
  /** Forget one altogether, open or not: it is over. */
  delete(runId: string): Promise<void>;
  runIds(): Promise<readonly string[]>;
  /** The last that this process kept: if the store knows that, it knows all that came before. */
  readonly newest: string | null;
}
