import { setTimeout as delay } from "node:timers/promises";
import { defaults } from "../../defaults.js";

/**
 * Circuit breaker for a server that hangs. A statement that fails only after `storeHangMs` opens it; while it is open,
 * statements fail at once, and probes check the server one after the other. A quick failure (refused, terminated) does
 * not open it, because the next statement fails as quickly.
 */
export class ServerCircuitBreaker {
  readonly #probe: () => Promise<void>;
  readonly #refuse: (reason: unknown) => Error;
  #error: unknown = null;
  #closed: Promise<void> | null = null;
  #disposed = false;

  /** `probe` resolves when the server answers; `refuse` makes the error of a statement that is not sent. */
  constructor(probe: () => Promise<void>, refuse: (reason: unknown) => Error) {
    this.#probe = probe;
    this.#refuse = refuse;
  }

  /** Rejects while the server is known to hang. */
  async enter(): Promise<void> {
    const closed = this.#closed;
    if (closed === null) return;
    await Promise.race([closed, delay(defaults.storeReopenMs, undefined, { ref: false })]);
    if (this.#closed !== null) throw this.#refuse(this.#error);
  }

  recordFailure(reason: unknown, tookMs: number): void {
    if (tookMs < defaults.storeHangMs || this.#disposed) return;
    this.#error = reason;
    this.#closed ??= this.#probeUntilUp().finally(() => {
      this.#closed = null;
    });
  }

  dispose(): void {
    this.#disposed = true;
  }

  /** Never rejects. */
  async #probeUntilUp(): Promise<void> {
    while (!this.#disposed) {
      try {
        await this.#probe();
        return;
      } catch {
        await delay(defaults.storeProbeMs, undefined, { ref: false });
      }
    }
  }
}
