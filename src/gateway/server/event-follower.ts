import { StoreAway } from "../../errors.js";
import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import {
  EventCursor,
  type EventGap,
  type EventPage,
  type EventSource,
} from "../../store/runs/event-cursor.js";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import type { SessionScope } from "../../model/session.js";
import type { Store } from "../../store/store.js";

const PAGE_SIZE = 200;

/** Pages that followers may share: more than there are active filters, and each has at most a few hundred kilobytes. */
const MAX_SHARED_PAGES = 32;

/** Which events a follower gets. */
export interface EventSelection {
  /** Only of this run. */
  readonly runId?: string;
  /** Only of runs of these sessions. */
  readonly scope?: SessionScope;
  /** Reads each page when it is the reader's turn. */
  readonly enqueue?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

type AnyEvent = RunEvent | HiddenEvent;

/** Events as they are committed, by whichever supervisor. One for all who read: whoever watches the store wakes it. */
export class EventFollower {
  readonly #store: Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">;
  readonly #waiting = new Set<() => void>();
  readonly #shared = new Map<string, Promise<readonly AnyEvent[]>>();
  #wakes = 0;

  constructor(store: Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">) {
    this.#store = store;
  }

  /** There may be more to read. */
  wake(): void {
    this.#wakes += 1;
    this.#shared.clear();
    for (const go of this.#waiting) go();
  }

  /**
   * Pages from a sequence number on. Continues when the store was unreachable for a while or lost its newest events. Ends
   * when `gone` aborts. A page may be empty, so that its reader can check whether it may still read.
   */
  async *follow(
    after: number,
    { runId, scope, enqueue = (work) => work() }: EventSelection,
    disconnected: AbortSignal,
  ): AsyncGenerator<readonly (RunEvent | EventGap)[], void, undefined> {
    const cursor = new EventCursor(this.#source(scope), after, runId === undefined ? {} : { runId });
    while (!disconnected.aborted) {
      // Before the look: what is committed during it may not be found by it.
      const wakes = this.#wakes;
      const { gap, events, full } = await enqueue(() => cursor.next(PAGE_SIZE)).catch(emptyPageIfAway);
      const shown = events.filter((event) => event.type !== "hidden");
      yield gap === null ? shown : [gap, ...shown];
      if (full) continue;
      // Streams of sessions read at most this often, however many events there are.
      if (scope !== undefined)
        await setTimeout(defaults.followPauseMs, undefined, { signal: disconnected }).catch(() => undefined);
      if (this.#wakes === wakes) await this.#waitForWake(disconnected);
    }
  }

  #source(scope: SessionScope | undefined): EventSource<AnyEvent> {
    const view = scope === undefined ? "" : JSON.stringify(scope);
    return {
      eventsReach: () => this.#store.eventsReach(),
      listEvents: (filter) =>
        this.#share(`${view} ${JSON.stringify(filter)}`, () =>
          scope === undefined ? this.#store.listEvents(filter) : this.#store.listScopedEvents(scope, filter),
        ),
    };
  }

  /** Followers with the same filter at the same position share one read until new events may exist. */
  #share(page: string, read: () => Promise<readonly AnyEvent[]>): Promise<readonly AnyEvent[]> {
    const known = this.#shared.get(page);
    if (known !== undefined) return known;
    const wakes = this.#wakes;
    const reading = read();
    // New events arrived while the read began.
    if (this.#wakes !== wakes) return reading;
    this.#shared.set(page, reading);
    reading.catch(() => {
      if (this.#shared.get(page) === reading) this.#shared.delete(page);
    });
    const [oldest] = this.#shared.keys();
    if (this.#shared.size > MAX_SHARED_PAGES && oldest !== undefined) this.#shared.delete(oldest);
    return reading;
  }

  #waitForWake(disconnected: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done);
        disconnected.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      disconnected.addEventListener("abort", done, { once: true });
      if (disconnected.aborted) done();
    });
  }
}

/** Whoever watches the store wakes the tail when it is back. */
function emptyPageIfAway(error: unknown): EventPage<AnyEvent> {
  if (error instanceof StoreAway) return { gap: null, events: [], full: false };
  throw error;
}
