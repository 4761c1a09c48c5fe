import type { RunEvent } from "../../model/run-event.js";
import type { EventFilter } from "./store.js";

/** The store has gone back in time behind a reader: what was said between is not to be had, numbers come again. */
export interface EventGap {
  readonly type: "gap";
  /** Up to where had been read. */
  readonly after: number;
  /** From where it goes on. */
  readonly from: number;
}

export interface EventPage<Event = RunEvent> {
  readonly gap: EventGap | null;
  readonly events: readonly Event[];
  /** There may be more at once. */
  readonly full: boolean;
}

/** The store that events are read from. */
export interface EventSource<Event = RunEvent> {
  listEvents(filter: EventFilter): Promise<readonly Event[]>;
  eventsReach(): Promise<number | null>;
}

type EventPosition = Pick<RunEvent, "seq" | "runId" | "at"> & { readonly type: string };

/** Reads events on and on from a number, also in a store that is put back to an older backup meanwhile. */
export class EventCursor<Event extends EventPosition = RunEvent> {
  readonly #store: EventSource<Event>;
  readonly #filter: Omit<EventFilter, "after" | "limit" | "newestFirst">;
  #after: number;
  #last: Event | null = null;

  constructor(
    store: EventSource<Event>,
    after: number,
    filter: Omit<EventFilter, "after" | "limit" | "newestFirst"> = {},
  ) {
    this.#store = store;
    this.#after = after;
    this.#filter = filter;
  }

  async next(limit: number): Promise<EventPage<Event>> {
    const last = this.#last;
    // The last one is read again: in a store that has gone back it is gone, or another has its number.
    const found = await this.#list({ after: last === null ? this.#after : last.seq - 1, limit });
    const [first] = found;
    const again = last !== null && first?.seq === last.seq;
    const replaced = again ? !isSameEvent(first, last) : await this.#isReplaced(last);
    if (replaced || (first === undefined && (await this.#isPastEnd()))) return this.#skipToNewest(limit);
    const events = again ? found.slice(1) : found;
    this.#moveTo(events);
    return { gap: null, events, full: found.length === limit };
  }

  /** It is not among those that are wanted: forgotten by now, unless one that is not wanted has its number. */
  async #isReplaced(last: Event | null): Promise<boolean> {
    if (last === null || Object.keys(this.#filter).length === 0) return false;
    const [there] = await this.#store.listEvents({ after: last.seq - 1, limit: 1 });
    return there?.seq === last.seq;
  }

  async #isPastEnd(): Promise<boolean> {
    if (this.#after === 0) return false;
    const reach = await this.#store.eventsReach();
    return reach !== null && reach < this.#after;
  }

  /** On from the newest there are, with those that were written after the last one that was read. */
  async #skipToNewest(limit: number): Promise<EventPage<Event>> {
    const since = this.#last?.at ?? Infinity;
    const newest = await this.#list({ newestFirst: true, limit });
    const events = newest.filter(({ at }) => at > since).toReversed();
    const after = this.#after;
    const from = events[0] === undefined ? (newest[0]?.seq ?? 0) : events[0].seq - 1;
    this.#after = from;
    this.#last = null;
    this.#moveTo(events);
    return { gap: { type: "gap", after, from }, events, full: false };
  }

  #list(page: EventFilter): Promise<readonly Event[]> {
    return this.#store.listEvents({ ...this.#filter, ...page });
  }

  #moveTo(events: readonly Event[]): void {
    this.#last = events.at(-1) ?? this.#last;
    this.#after = this.#last?.seq ?? this.#after;
  }
}

function isSameEvent(one: EventPosition, other: EventPosition): boolean {
  return one.runId === other.runId && one.type === other.type && one.at === other.at;
}
