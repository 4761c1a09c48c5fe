import { HoldfastError } from "./base.js";

/** An error about one run. */
class RunError extends HoldfastError {
  readonly runId: string;
  constructor(code: string, runId: string, message: string) {
    super(code, message);
    this.runId = runId;
  }
}

export class LeaseLost extends RunError {
  readonly epoch: number;
  /** The instance that holds the lease now, or null if it is not known. */
  readonly heldBy: string | null;
  constructor(runId: string, epoch: number, heldBy: string | null = null) {
    const holder = heldBy === null ? "" : `: ${heldBy} has acquired it`;
    super(
      "LEASE_LOST",
      runId,
      `the lease of run ${runId} under epoch ${epoch} is lost${holder}; this supervisor no longer controls the run`,
    );
    this.epoch = epoch;
    this.heldBy = heldBy;
  }
}

export class RunExists extends RunError {
  constructor(runId: string) {
    super("RUN_EXISTS", runId, `run ${runId} is already recorded; nothing was started`);
  }
}

/** The command could not be started, and none of its instructions ran. The run's record says so too. */
export class SpawnFailed extends RunError {
  readonly errno: number;
  readonly step: string;
  constructor(runId: string, errno: number, step: string, message: string) {
    super("SPAWN_FAILED", runId, message);
    this.errno = errno;
    this.step = step;
  }
}

/** A requested limit cannot be set on this host. */
export class LimitUnavailable extends SpawnFailed {
  override readonly code = "LIMIT_UNAVAILABLE";
}

export class StaleEpoch extends RunError {
  readonly highestEpoch: number;
  constructor(runId: string, highestEpoch: number) {
    super(
      "STALE_EPOCH",
      runId,
      `run ${runId} has a newer owner (epoch ${highestEpoch}); this supervisor will not control it`,
    );
    this.highestEpoch = highestEpoch;
  }
}

export class AnchorUnusable extends HoldfastError {
  readonly path: string;
  constructor(path: string, message: string, options?: ErrorOptions) {
    super("ANCHOR_UNUSABLE", message, options);
    this.path = path;
  }
}

export class RunNotFound extends RunError {
  constructor(runId: string) {
    super("RUN_NOT_FOUND", runId, `no run ${runId}`);
  }
}

/** The input cannot reach the program any more. Input that the anchor accepted before was delivered. */
export class StdinClosed extends RunError {
  constructor(runId: string, why: string) {
    super("STDIN_CLOSED", runId, `run ${runId}: ${why}; the input was not delivered`);
  }
}

/** The program reads its input more slowly than it is sent. */
export class StdinFull extends RunError {
  constructor(runId: string, waiting: number) {
    super(
      "STDIN_FULL",
      runId,
      `run ${runId}: ${waiting} bytes of input already wait for the program; this input was not accepted, try again later`,
    );
  }
}

/** This supervisor may read and stop the run, but not control it otherwise now. */
export class NotSteering extends RunError {
  constructor(runId: string, why: string) {
    super(
      "NOT_STEERING",
      runId,
      `run ${runId} cannot be controlled now: ${why}; stopping it and reading its output still work`,
    );
  }
}

/** The supervisor has been closed. The message says what happens to its runs. */
export class SupervisorClosed extends HoldfastError {
  readonly instanceId: string;
  constructor(instanceId: string, message: string) {
    super("SUPERVISOR_CLOSED", `supervisor ${instanceId} is closed: ${message}`);
    this.instanceId = instanceId;
  }
}

/** Only a run with processes that survived KILL can be abandoned. */
export class NothingToAbandon extends RunError {
  constructor(runId: string, why: string) {
    super("NOTHING_TO_ABANDON", runId, `run ${runId} cannot be abandoned: ${why}. Nothing was changed`);
  }
}

/** No evidence connects the process with a run. */
export class NotOurs extends HoldfastError {
  readonly pid: number;
  constructor(pid: number, why: string) {
    super("NOT_OURS", `process ${pid} belongs to no known run: ${why}`);
    this.pid = pid;
  }
}

/** A process of a run cannot become a service of its own now. */
export class NotAdopted extends RunError {
  constructor(runId: string, why: string) {
    super("NOT_ADOPTED", runId, `no process of run ${runId} was adopted, and nothing was changed: ${why}`);
  }
}

/** The run or the host may still be alive, so its record is not ended. */
export class NotForgotten extends HoldfastError {
  constructor(what: string, why: string) {
    super("NOT_FORGOTTEN", `${what} is not forgotten: ${why}. Nothing was changed`);
  }
}
