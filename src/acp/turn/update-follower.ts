import { defaults } from "../../defaults.js";
import type { AcpUpdate } from "../../model/acp.js";
import type { AcpStore } from "../../store/acp/store.js";

const PAGE_ROWS = 500;
/** What another gateway writes is heard by looking: as often as somebody who reads along notices. */
const POLL_MS = 250;

/** What happens in sessions, as it is written. One for all who read. */
export class UpdateFollower {
  readonly #store: AcpStore;
  readonly #writtenHere: (sessionId: string) => boolean;
  readonly #waiters = new Map<string, Set<() => void>>();
  #closed = false;

  constructor(store: AcpStore, writtenHere: (sessionId: string) => boolean) {
    this.#store = store;
    this.#writtenHere = writtenHere;
  }

  /** Something was written. */
  wake(sessionId: string): void {
    for (const go of this.#waiters.get(sessionId) ?? []) go();
  }

  /** Whoever follows has heard all that this process says. */
  close(): void {
    this.#closed = true;
    for (const sessionId of this.#waiters.keys()) this.wake(sessionId);
  }

  /** From a number on. Ends with the session, with this process, and when `gone` aborts. */
  async *follow(
    sessionId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<AcpUpdate, void, undefined> {
    const maxBytes = defaults.acpPageBytes;
    let last = after;
    while (!signal.aborted && !this.#closed) {
      using woken = this.#listen(sessionId, signal);
      const closed = (await this.#store.getAcpSession(sessionId))?.state === "closed";
      const page = await this.#store.listAcpUpdates({ sessionId, after: last, limit: PAGE_ROWS, maxBytes });
      for (const update of page) {
        last = update.seq;
        yield update;
      }
      if (page.length > 0) continue;
      if (closed) return;
      await woken.promise;
    }
  }

  /** Looks whenever something was written; null: `gone` came first. */
  async waitFor<T>(sessionId: string, poll: () => Promise<T | null>, signal: AbortSignal): Promise<T | null> {
    while (!signal.aborted) {
      // Heard before the look: what is written during it may not be seen by it.
      using woken = this.#listen(sessionId, signal);
      const seen = await poll();
      if (seen !== null) return seen;
      await woken.promise;
    }
    return null;
  }

  #listen(sessionId: string, signal: AbortSignal): Disposable & { readonly promise: Promise<void> } {
    const here = this.#waiters.get(sessionId) ?? new Set<() => void>();
    this.#waiters.set(sessionId, here);
    let go = (): void => undefined;
    const promise = new Promise<void>((resolve) => (go = resolve));
    here.add(go);
    signal.addEventListener("abort", go);
    if (signal.aborted) go();
    const poll = this.#writtenHere(sessionId) ? undefined : setTimeout(go, POLL_MS);
    return {
      promise,
      [Symbol.dispose]: () => {
        clearTimeout(poll);
        here.delete(go);
        signal.removeEventListener("abort", go);
        if (here.size === 0 && this.#waiters.get(sessionId) === here) this.#waiters.delete(sessionId);
      },
    };
  }
}
