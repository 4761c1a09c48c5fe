import { defaults } from "../../defaults.js";
import type { RunStore } from "../../store/runs/store.js";
import type { Clock, Timer } from "../../async/clock.js";

export interface LeaseRenewerOptions {
  readonly store: RunStore;
  readonly clock: Clock;
  readonly instanceId: string;
  /** False: another process of this instance has replaced this one, and renews the leases. */
  readonly isCurrent: () => Promise<boolean>;
  /** How many leases there are to renew. */
  readonly heldCount: () => number;
  /** Fewer were renewed than are held here: these are all the store knows of. */
  readonly onMissing: (known: ReadonlySet<string>) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Renews all leases of one supervisor, in one statement, expired ones too: while nobody has taken them they are its
 * own. A supervisor that cannot write stops steering before its leases expire: by then another may have taken them.
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

  /** True: too long without a renewal. Read from the clock, not from a timer: a process that was stopped knows it at once. */
  get fenced(): boolean {
    return this.#options.clock.now() - this.#renewedAt >= defaults.selfFenceMs;
  }

  /** Why the last renewal was refused; null: it was accepted. */
  get lastError(): unknown {
    return this.#lastError;
  }

  get sinceRenewalMs(): number {
    return this.#options.clock.now() - this.#renewedAt;
  }

  /** The first lease after none were held is as fresh as a renewal. */
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
    // The lease counts from before the write at the earliest: a slow store must not make it look younger than it is.
    const asked = clock.now();
    try {
      if (heldCount() > 0) {
        if (!(await isCurrent())) return;
        const renewed = await store.renewLeases(instanceId, defaults.leaseMs);
        if (renewed < heldCount()) onMissing(new Set(await store.listOwnedRunIds(instanceId)));
      }
      this.#renewedAt = asked;
      this.#lastError = null;
    } catch (error) {
      this.#lastError = error;
      onError(error);
    }
  }
}
