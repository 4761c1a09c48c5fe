import { defaults } from "../defaults.js";
import type { Store } from "../store/store.js";

export interface LeasesOptions {
  readonly store: Store;
  readonly instanceId: string;
  /** How many leases there are to renew. */
  readonly held: () => number;
  readonly failing: (error: unknown) => void;
}

/**
 * Renews all leases of one supervisor, in one statement. A supervisor that cannot write stops steering before its
 * leases expire: by then another may have taken them.
 */
export class Leases {
  readonly #options: LeasesOptions;
  #renewedAt = performance.now();
  #timer: NodeJS.Timeout | null = null;
  #renewing: Promise<void> | null = null;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => void this.renew(), defaults.renewMs);
    this.#timer.unref();
  }

  /** True: too long without a renewal. Read from the clock, not from a timer: a process that was stopped knows it at once. */
  get fenced(): boolean {
    return performance.now() - this.#renewedAt >= defaults.selfFenceMs;
  }

  /** The first lease after none were held is as fresh as a renewal. */
  taken(): void {
    if (this.#options.held() <= 1) this.#renewedAt = performance.now();
  }

  /** Never rejects. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#renewing;
  }

  async #renew(): Promise<void> {
    // The lease counts from before the write at the earliest: a slow store must not make it look younger than it is.
    const asked = performance.now();
    try {
      if (this.#options.held() > 0)
        await this.#options.store.renewLeases(this.#options.instanceId, defaults.leaseMs);
      this.#renewedAt = asked;
    } catch (error) {
      this.#options.failing(error);
    }
  }
}
