import type { RunEvent } from "../../model/run-event.js";
import type { EventFilter } from "./contract.js";

/** The store was rolled back behind a reader: events in between are lost, and numbers are used again. */
export interface EventGap {
  readonly type: "gap";
  /** The last number that was read. */
  readonly after: number;
  /** The number from which reading continues. */
  readonly from: number;
}

export interface EventPage<Event = RunEvent> {
  readonly gap: EventGap | null;
  readonly events: readonly Event[];
  /** More events may be available now. */
  readonly full: boolean;
}

/** The store that events are read from. */
export interface EventSource<Event = RunEvent> {
  listEvents(filter: EventFilter): Promise<readonly Event[]>;
  eventsReach(): Promise<number | null>;
}

type EventPosition = Pick<RunEvent, "seq" | "runId" | "at"> & { readonly type: string };

/** Reads events page by page from a number, also if the store is rolled back meanwhile. */
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
    // The last event is read again: after a roll-back it is missing, or another event has its number.
    const found = await this.#list({ after: last === null ? this.#after : last.seq - 1, limit });
    const [first] = found;
    const again = last !== null && first?.seq === last.seq;
    const replaced = again ? !isSameEvent(first, last) : await this.#isReplaced(last);
    if (replaced || (first === undefined && (await this.#isPastEnd()))) return this.#skipToNewest(limit);
    const events = again ? found.slice(1) : found;
    this.#moveTo(events);
    return { gap: null, events, full: found.length === limit };
  }

  /** The last event no longer matches the filter. Either it was deleted, or another event has its number. */
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

  /** Continues at the newest events, with those written after the last event that was read. */
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
