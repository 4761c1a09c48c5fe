import { defaults } from "../../defaults.js";
import type { RunStore } from "../../store/runs/contract.js";
import type { Clock, Timer } from "../../async/clock.js";

interface LeaseRenewerOptions {
  readonly store: RunStore;
  readonly clock: Clock;
  readonly instanceId: string;
  /** False: another process of this instance has replaced this one, and renews the leases. */
  readonly isCurrent: () => Promise<boolean>;
  /** Number of leases to renew. */
  readonly heldCount: () => number;
  /** Fewer leases were renewed than are held; `known`: the runs that the store has for this owner. */
  readonly onMissing: (known: ReadonlySet<string>) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Renews all leases of one supervisor in one statement, also expired ones that no other supervisor has taken. Without a
 * renewal, the supervisor fences itself before its leases expire.
 */
export class LeaseRenewer {
  readonly #options: LeaseRenewerOptions;
  #renewedAt: number;
  #timer: Timer | null = null;
  #renewing: Promise<void> | null = null;
  #lastError: unknown = null;

  constructor(options: LeaseRenewerOptions) {
    this.#options = options;
    this.#renewedAt = options.clock.now();
  }

  start(): void {
    this.#timer ??= this.#options.clock.setTimer(defaults.renewMs, () => {
      this.#timer = null;
      this.start();
      void this.renew();
    });
  }

  /** True: no renewal for too long. Read from the clock, so that a process that was suspended notices at once. */
  get fenced(): boolean {
    return this.#options.clock.now() - this.#renewedAt >= defaults.selfFenceMs;
  }

  /** Error of the last renewal; null: it succeeded. */
  get lastError(): unknown {
    return this.#lastError;
  }

  get sinceRenewalMs(): number {
    return this.#options.clock.now() - this.#renewedAt;
  }

  /** The first lease counts as a renewal, if none was held before. */
  onLeaseAcquired(): void {
    if (this.#options.heldCount() <= 1) this.#renewedAt = this.#options.clock.now();
  }

  /** Never rejects. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    // The wait is bounded: the store may not answer.
    if (this.#renewing !== null) await this.#options.clock.sleep(defaults.storeAnswerMs, this.#renewing);
  }

  async #renew(): Promise<void> {
    const { store, clock, instanceId, isCurrent, heldCount, onMissing, onError } = this.#options;
    // Taken before the write: a slow store must not make the lease look younger than it is.
    const startedAt = clock.now();
    try {
      if (heldCount() > 0) {
        if (!(await isCurrent())) return;
        const renewed = await store.renewLeases(instanceId, defaults.leaseMs);
        if (renewed < heldCount()) onMissing(new Set(await store.listOwnedRunIds(instanceId)));
      }
      this.#renewedAt = startedAt;
      this.#lastError = null;
    } catch (error) {
      this.#lastError = error;
      onError(error);
    }
  }
}
