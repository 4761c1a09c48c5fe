import { defaults } from "../defaults.js";
import type { AcpUpdate } from "../store/acp-record.js";
import type { AcpStore } from "../store/acp-store.js";

const PAGE = 500;
/** What another gateway writes is heard by looking: as often as somebody who reads along notices. */
const LOOK_MS = 250;

/** What happens in sessions, as it is written. One for all who read. */
export class UpdateTail {
  readonly #store: AcpStore;
  readonly #writtenHere: (sessionId: string) => boolean;
  readonly #waiting = new Map<string, Set<() => void>>();
  #ended = false;

  constructor(store: AcpStore, writtenHere: (sessionId: string) => boolean) {
    this.#store = store;
    this.#writtenHere = writtenHere;
  }

  /** Something was written. */
  wake(sessionId: string): void {
    for (const go of this.#waiting.get(sessionId) ?? []) go();
  }

  /** Whoever follows has heard all that this process says. */
  end(): void {
    this.#ended = true;
    for (const sessionId of this.#waiting.keys()) this.wake(sessionId);
  }

  /** From a number on. Ends with the session, with this process, and when `gone` aborts. */
  async *follow(
    sessionId: string,
    after: number,
    gone: AbortSignal,
  ): AsyncGenerator<AcpUpdate, void, undefined> {
    const maxBytes = defaults.acpPageBytes;
    let last = after;
    while (!gone.aborted && !this.#ended) {
      using woken = this.#listen(sessionId, gone);
      const closed = (await this.#store.getAcpSession(sessionId))?.state === "closed";
      const page = await this.#store.listAcpUpdates({ sessionId, after: last, limit: PAGE, maxBytes });
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
  async until<T>(sessionId: string, look: () => Promise<T | null>, gone: AbortSignal): Promise<T | null> {
    while (!gone.aborted) {
      // Heard before the look: what is written during it may not be seen by it.
      using woken = this.#listen(sessionId, gone);
      const seen = await look();
      if (seen !== null) return seen;
      await woken.promise;
    }
    return null;
  }

  #listen(sessionId: string, gone: AbortSignal): Disposable & { readonly promise: Promise<void> } {
    const here = this.#waiting.get(sessionId) ?? new Set<() => void>();
    this.#waiting.set(sessionId, here);
    let go = (): void => undefined;
    const promise = new Promise<void>((resolve) => (go = resolve));
    here.add(go);
    gone.addEventListener("abort", go);
    if (gone.aborted) go();
    const look = this.#writtenHere(sessionId) ? undefined : setTimeout(go, LOOK_MS);
    return {
      promise,
      [Symbol.dispose]: () => {
        clearTimeout(look);
        here.delete(go);
        gone.removeEventListener("abort", go);
        if (here.size === 0 && this.#waiting.get(sessionId) === here) this.#waiting.delete(sessionId);
      },
    };
  }
}
