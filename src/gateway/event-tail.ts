import { StoreAway } from "../errors.js";
import { EventCursor, type EventGap, type EventPage } from "../store/event-cursor.js";
import type { RunEvent } from "../store/run-event.js";
import type { Supervisor } from "../supervisor/api.js";

const PAGE = 500;

/** Events as they are committed, by whichever supervisor. One for all who read: whoever watches the store wakes it. */
export class EventTail {
  readonly #supervisor: Pick<Supervisor, "listEvents" | "eventsReach">;
  readonly #waiting = new Set<() => void>();
  #wakes = 0;

  constructor(supervisor: Pick<Supervisor, "listEvents" | "eventsReach">) {
    this.#supervisor = supervisor;
  }

  /** There may be more to read. */
  wake(): void {
    this.#wakes += 1;
    for (const go of this.#waiting) go();
  }

  /** From a sequence number on, also when the store is away for a while, or goes back. Ends when `gone` aborts. */
  async *follow(
    after: number,
    runId: string | undefined,
    gone: AbortSignal,
  ): AsyncGenerator<RunEvent | EventGap, void, undefined> {
    const cursor = new EventCursor(this.#supervisor, after, runId === undefined ? {} : { runId });
    while (!gone.aborted) {
      // Before the look: what is committed during it may not be found by it.
      const wakes = this.#wakes;
      const { gap, events, full } = await cursor.next(PAGE).catch(nothingNow);
      if (gap !== null) yield gap;
      yield* events;
      if (!full && this.#wakes === wakes) await this.#woken(gone);
    }
  }

  #woken(gone: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done);
        gone.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      gone.addEventListener("abort", done, { once: true });
      if (gone.aborted) done();
    });
  }
}

/** Whoever watches the store wakes the tail when it is back. */
function nothingNow(error: unknown): EventPage {
  if (error instanceof StoreAway) return { gap: null, events: [], full: false };
  throw error;
}
