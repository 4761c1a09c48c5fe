import { ApiError, request } from "../api/client.js";
import { followNdjson } from "../api/ndjson.js";
import type { RunEvent } from "../api/types.js";
import { connected, connection, disconnected, storeRolledBack } from "./connection.js";
import { sleep, untilVisible, whileVisible } from "./page-visibility.js";

/** The store was rolled back, so events may be missing: what was read before must be read again. */
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
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 5_000;

const listeners = new Set<EventListener>();
/** The last event that was read. Null: none yet. */
let last: number | null = null;
let following = false;

/** Calls the listener for each event of a run that is committed from now on, until it is disposed of. */
export function listenForEvents(listener: EventListener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * Follows the events of the gateway until the page is closed. After an interruption it continues behind the last event,
 * so that none is missed. A hidden page does not follow, because browsers open few connections at a time.
 */
export async function followEvents(): Promise<void> {
  if (following) return;
  following = true;
  let pauseMs = FIRST_PAUSE_MS;
  while (connection.peek() !== "logged-out") {
    await untilVisible();
    try {
      await followOnce(() => (pauseMs = FIRST_PAUSE_MS));
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
      pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS);
    }
  }
  following = false;
}

/** Resolves or rejects when the stream ends. */
async function followOnce(onOpen: () => void): Promise<void> {
  last ??= await newestEvent();
  using visible = whileVisible();
  const path = `/v1/events?follow=1&after=${last}`;
  const opened = (): void => {
    onOpen();
    connected();
  };
  for await (const event of followNdjson<RunEvent | Gap>(path, visible.signal, opened)) {
    if (event.type === "gap") {
      last = event.from;
      storeRolledBack();
      for (const { onGap } of listeners) onGap();
    } else {
      last = event.seq;
      for (const { onEvent } of listeners) onEvent(event);
    }
  }
}

async function newestEvent(): Promise<number> {
  const { gap, after } = await request("events", { query: { after: BEYOND_END, limit: 1 } });
  return gap ? after : 0;
}
