import { setTimeout } from "node:timers/promises";
import { RowFollower } from "../../async/row-follower.js";
import { defaults } from "../../defaults.js";
import { StoreAway } from "../../errors.js";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import type { SessionScope } from "../../model/session.js";
import { isTaskEnded, type TaskEvent } from "../../model/task.js";
import {
  EventCursor,
  type EventGap,
  type EventPage,
  type EventSource,
} from "../../store/runs/event-cursor.js";
import type { Store } from "../../store/store.js";
import type { TaskStore } from "../../store/tasks/contract.js";

const PAGE_SIZE = 200;

/** Pages that followers may share: more than there are active filters; a page has at most a few hundred kilobytes. */
const MAX_SHARED_PAGES = 32;

/** The events that a follower reads. */
interface EventSelection {
  /** Only events of this run. */
  readonly runId?: string;
  /** Only events of runs of these sessions. */
  readonly scope?: SessionScope;
  /** Admission control for the read of each page. */
  readonly enqueue?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

type AnyEvent = RunEvent | HiddenEvent;

/** Follows the events of runs as any supervisor commits them. The watch on the store wakes it. */
export class EventFollower {
  readonly #store: Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">;
  readonly #rows = new RowFollower();
  readonly #shared = new Map<string, Promise<readonly AnyEvent[]>>();
  #wakes = 0;

  constructor(store: Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">) {
    this.#store = store;
  }

  /** Called when there may be new events. */
  wake(): void {
    this.#wakes += 1;
    this.#shared.clear();
    this.#rows.wake();
  }

  /**
   * Pages of events after a sequence number. Continues when the store was unreachable for a time or lost its newest
   * events. Ends when `signal` aborts. A page may be empty, so that its reader can check whether it may still read.
   */
  async *follow(
    after: number,
    { runId, scope, enqueue = (work) => work() }: EventSelection,
    signal: AbortSignal,
  ): AsyncGenerator<readonly (RunEvent | EventGap)[], void, undefined> {
    const cursor = new EventCursor(this.#source(scope), after, runId === undefined ? {} : { runId });
    let atEnd = false;
    const read = async () => {
      const { gap, events, full } = await enqueue(() => cursor.next(PAGE_SIZE)).catch(emptyPageIfAway);
      const visible = events.filter((event) => event.type !== "hidden");
      atEnd = !full;
      return { rows: gap === null ? visible : [gap, ...visible], full };
    };
    for await (const page of this.#rows.follow("", read, { signal })) {
      yield page;
      // Streams of sessions read at most this often, however many events there are.
      if (scope !== undefined && atEnd)
        await setTimeout(defaults.followPauseMs, undefined, { signal }).catch(() => undefined);
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
}

/** The watch on the store wakes the follower when the store is back. */
function emptyPageIfAway(error: unknown): EventPage<AnyEvent> {
  if (error instanceof StoreAway) return { gap: null, events: [], full: false };
  throw error;
}

/** Poll interval for events that another gateway writes. */
const POLL_MS = 500;

/** Follows the events of tasks as they are written. */
export class TaskEventFollower {
  readonly #store: Pick<TaskStore, "getTask" | "listTaskEvents">;
  readonly #rows = new RowFollower();

  constructor(store: Pick<TaskStore, "getTask" | "listTaskEvents">) {
    this.#store = store;
  }

  /** Called after an event of any task was written. */
  wake(): void {
    this.#rows.wake();
  }

  close(): void {
    this.#rows.close();
  }

  /** Events after a sequence number. Ends with the task, with `close`, and when `signal` aborts. */
  async *follow(
    taskId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<TaskEvent, void, undefined> {
    let last = after;
    const read = async () => {
      const task = await this.#store.getTask(taskId);
      const events = task === null || task.seq === last ? [] : await this.#store.listTaskEvents(taskId);
      return {
        rows: events.filter(({ seq }) => seq > last),
        ended: task === null || isTaskEnded(task.status),
      };
    };
    for await (const page of this.#rows.follow(taskId, read, { signal, pollMs: () => POLL_MS }))
      for (const event of page) {
        last = event.seq;
        yield event;
      }
  }
}
