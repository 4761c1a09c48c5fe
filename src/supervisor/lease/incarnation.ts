import type { LockState } from "../../anchor/instance/hold-instance-locks.js";
import { defaults } from "../../defaults.js";
import { InstanceTaken } from "../../errors.js";
import type { Problem } from "../api.js";
import type { Clock, Timer } from "../../async/clock.js";
import { SharedOperation } from "../../async/concurrency.js";

interface IncarnationOptions {
  readonly instanceId: string;
  /** Checks the locks of the instance; null: there are none. */
  readonly checkLocks: (() => Promise<LockState>) | null;
  readonly clock: Clock;
  readonly report: (problem: Problem) => void;
  /** Called once: this process must not touch the instance afterwards. */
  readonly onTaken: (error: InstanceTaken) => void;
}

/**
 * This process among those that may run as one instance. The process that holds the instance's locks is the instance;
 * a process that finds them held by another, or one of its leases taken by another process of its own instance, stops
 * for good. It never takes a lease back: two processes of one instance would take it from each other without end.
 */
export class Incarnation {
  readonly #options: IncarnationOptions;
  /** A pass over many runs asks for each of them. */
  readonly #checks = new SharedOperation(() => this.#check());
  #taken: InstanceTaken | null = null;
  #unlockedReported = false;
  #timer: Timer | null = null;

  constructor(options: IncarnationOptions) {
    this.#options = options;
  }

  /** Not null: another process is the instance now. */
  get taken(): InstanceTaken | null {
    return this.#taken;
  }

  start(): void {
    if (this.#options.checkLocks === null) return;
    this.#timer = this.#options.clock.setTimer(defaults.lockPollMs, () => {
      void this.isCurrent().then(() => {
        if (this.#timer !== null) this.start();
      });
    });
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Checks the locks before leases are renewed or taken. Never rejects: a failed check proves nothing. */
  async isCurrent(): Promise<boolean> {
    if (this.#taken !== null || this.#options.checkLocks === null) return this.#taken === null;
    return this.#checks.run();
  }

  async #check(): Promise<boolean> {
    const { checkLocks: check, instanceId, report } = this.#options;
    if (this.#taken !== null || check === null) return this.#taken === null;
    const state = await check().catch((cause: unknown) => {
      report({ runId: null, message: `the locks of instance ${instanceId} cannot be checked`, cause });
      return "held" as const;
    });
    if (state === "taken")
      this.markTaken("it holds the instance's lock, which was removed from under this process");
    if (state === "restored")
      report({
        runId: null,
        message: `instance.lock of instance ${instanceId}, or its directory, was removed while in use; it was created and locked again. Do not remove it: it prevents the start of a second gateway`,
        cause: null,
      });
    if (state === "unlocked" && !this.#unlockedReported)
      report({
        runId: null,
        message: `the state directory of instance ${instanceId} was removed or replaced while in use; runs continue, but no command can reach this process. Stop it with SIGTERM: its tasks end, its services continue`,
        cause: null,
      });
    this.#unlockedReported = state === "unlocked";
    return this.#taken === null;
  }

  /** Call when another process is found to run as this instance. */
  markTaken(evidence: string): void {
    if (this.#taken !== null) return;
    this.stop();
    this.#taken = new InstanceTaken(this.#options.instanceId, evidence);
    this.#options.onTaken(this.#taken);
  }
}
