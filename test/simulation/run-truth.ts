import type { SimulatedAnchor } from "./parts/anchor.js";
import type { SimulatedProcess } from "./parts/machine.js";
import type { SimulatedSupervisor } from "./parts/supervisor.js";

/** The true facts of a run, independent of its record. */
export class RunTruth {
  readonly alias: string;
  readonly committedEpochs = new Set<number>();
  /** The latest process of each instance that has taken it. */
  readonly takers = new Map<string, SimulatedSupervisor>();
  highestOwned = 0;
  /** Commits of its record while its command had not been executed. */
  commitsBeforeGo = 0;
  exitEvents = 0;
  /** When its lease was last written, in the order of commits. */
  renewedAt = 0;
  anchor: SimulatedAnchor | null = null;
  /** Killed by the schedule, or by a reap. */
  anchorKilled = false;
  /** Its record was lost: only the facts in its directory are known. */
  forgotten = false;
  /** Its machine gave no sign of life for too long. */
  givenUp = false;
  /** The machine or container it ran in has been restarted. */
  restarted = false;
  /** When its anchor received the first stop, on its machine's clock. */
  stoppedAt: number | null = null;
  leaseId = "";
  ended = false;
  /** When its end was recorded, neither its launcher nor a supervisor had reported that its tree was empty. */
  endedUnswept = false;
  /** A process of it could not be killed for a while. */
  wasStuck = false;

  constructor(alias: string) {
    this.alias = alias;
  }

  /** Its end is on record from now on. */
  end(): void {
    this.ended = true;
    this.endedUnswept = this.anchor?.directory.swept === null;
  }

  /** All that live and have run an instruction of the command; one behind the gate has not. */
  processes(): SimulatedProcess[] {
    return this.anchor?.executed === true ? this.anchor.place.ofRun(this.anchor.runId) : [];
  }

  exitFileWritten(): boolean {
    return this.anchor !== null && this.anchor.directory.exit !== null;
  }
}
