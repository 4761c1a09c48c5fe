import type { Anchor } from "./anchor.js";
import type { Process } from "./machine.js";

/** What is true of a run, whatever anybody has recorded of it. */
export class RunTruth {
  readonly alias: string;
  readonly committedEpochs = new Set<number>();
  highestOwned = 0;
  exitEvents = 0;
  /** When its lease was last written, in the order of commits. */
  renewedAt = 0;
  anchor: Anchor | null = null;
  /** Killed by the schedule. */
  anchorKilled = false;
  launcherKilled = false;
  /** The machine or container it ran in has been restarted. */
  restarted = false;
  /** When its anchor was first told to stop, on its machine's clock. */
  stoppedAt: number | null = null;
  leaseId = "";

  constructor(alias: string) {
    this.alias = alias;
  }

  processes(): Process[] {
    return this.anchor === null ? [] : this.anchor.place.ofRun(this.anchor.runId);
  }

  exitFileWritten(): boolean {
    return this.anchor !== null && this.anchor.directory.exit !== null;
  }
}
