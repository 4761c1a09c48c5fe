import { ApiError, request } from "../api/client.js";
import { followNdjson } from "../api/ndjson.js";
import type { RunEvent } from "../api/types.js";
import { defaults } from "../defaults.js";
import { connected, connection, disconnected, eventsMissed } from "./connection.js";
import { sleep, untilVisible, whileVisible } from "./page-visibility.js";

/** The store was rolled back while the stream was open, so events may be missing. */
interface Gap {
  readonly type: "gap";
  readonly from: number;
}

export interface EventListener {
  readonly onEvent: (event: RunEvent) => void;
  /** Everything must be read again. */
  readonly onGap: () => void;
}

/** Far above every sequence number: the gateway then answers with the newest one. */
const BEYOND_END = 2 ** 52;

const listeners = new Set<EventListener>();
type Position = Pick<RunEvent, "seq" | "runId" | "at"> & { readonly type: string };

/** The number behind which the page continues. Null: not known yet. */
let after: number | null = null;
/** The event with that number. Null: the page has not seen it. */
let last: Position | null = null;
let following = false;

/** Calls the listener for each event of a run that is committed from now on, until it is disposed of. */
export function listenForEvents(listener: EventListener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * Follows the events of the gateway until the page is closed. After an interruption it continues behind the last event,
 * so that none is missed, if that event is still in the log. Otherwise everything is read again. A hidden page does not follow, because browsers open few connections at a time.
 */
export async function followEvents(): Promise<void> {
  if (following) return;
  following = true;
  let pauseMs: number = defaults.reconnectFirstMs;
  while (connection.peek() !== "logged-out") {
    await untilVisible();
    try {
      await followOnce(() => (pauseMs = defaults.reconnectFirstMs));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        connection.value = "logged-out";
        break;
      }
    }
    if (document.hidden) connection.value = "paused";
    else {
      disconnected();
      await sleep(pauseMs);
      pauseMs = Math.min(pauseMs * 2, defaults.reconnectLastMs);
    }
  }
  following = false;
}

/** Resolves or rejects when the stream ends. */
async function followOnce(onOpen: () => void): Promise<void> {
  if (after === null) moveTo(await newestEvent());
  else if (last === null || !(await isKept(last))) {
    moveTo(await newestEvent());
    reportMissed();
  }
  using visible = whileVisible();
  const path = `/v1/events?follow=1&after=${after}`;
  const opened = (): void => {
    onOpen();
    connected();
  };
  for await (const event of followNdjson<RunEvent | Gap>(path, visible.signal, opened)) {
    if (event.type === "gap") {
      moveTo({ after: event.from, event: null });
      reportMissed();
    } else {
      moveTo({ after: event.seq, event });
      for (const { onEvent } of listeners) onEvent(event);
    }
  }
}

function moveTo(to: { readonly after: number; readonly event: Position | null }): void {
  after = to.after;
  last = to.event;
}

function reportMissed(): void {
  eventsMissed();
  for (const { onGap } of listeners) onGap();
}

/** False: the event was deleted, or after a roll-back of the store its number belongs to another one or to none. */
async function isKept({ seq, runId, type, at }: Position): Promise<boolean> {
  const { events } = await request("events", { query: { after: seq - 1, limit: 1 } });
  const [found] = events;
  return found?.seq === seq && found.runId === runId && found.type === type && found.at === at;
}

async function newestEvent(): Promise<{ readonly after: number; readonly event: Position | null }> {
  const newest = await request("events", { query: { after: BEYOND_END, limit: 1 } });
  if (!newest.gap || newest.after === 0) return { after: 0, event: null };
  const { events } = await request("events", { query: { after: newest.after - 1, limit: 1 } });
  return { after: newest.after, event: events[0] ?? null };
}
