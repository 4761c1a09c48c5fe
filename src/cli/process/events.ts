import { RunNotFound, StoreAway } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { EventCursor, type EventGap } from "../../store/event-cursor.js";
import type { RunEvent } from "../../store/run-event.js";
import { say } from "../complain.js";
import { eventText } from "../runs/event-text.js";
import { findRecord } from "../runs/find-record.js";
import { print, printOn } from "../runs/print.js";
import { openStoreForReading } from "../runs/read-store.js";

export interface EventsRequest {
  readonly run: string | null;
  readonly after: number;
  readonly limit: number;
  readonly follow: boolean;
  readonly json: boolean;
}

/** How late an event of another process is noticed. */
const LOOK_MS = 200;

/** What happened, in order. Reads the store: it needs no gateway, and changes nothing. */
export async function showEvents({ run, after, limit, follow, json }: EventsRequest): Promise<number> {
  await using store = await openStoreForReading();
  if (store === null) {
    if (run !== null) throw new RunNotFound(run);
    return 0;
  }
  const filter = run === null ? {} : { runId: (await findRecord(store, run)).runId };
  const tell = follow ? printOn : print;
  const show = (event: RunEvent | EventGap): void =>
    tell(json ? `${JSON.stringify(event)}\n` : `${event.type === "gap" ? gapLine(event) : line(event)}\n`);
  const newest = await store.listEvents({ ...filter, after, newestFirst: true, limit });
  for (const event of newest.toReversed()) show(event);
  const cursor = new EventCursor(store, newest[0]?.seq ?? after, filter);
  let away = false;
  while (follow) {
    const { gap, events, full } = await cursor.next(500).catch((error: unknown) => {
      if (!(error instanceof StoreAway)) throw error;
      if (!away) say(`${error.message} Going on when it is back.`, "yellow");
      away = true;
      return { gap: null, events: [], full: false };
    });
    if (gap !== null) show(gap);
    if (events.length > 0) away = false;
    for (const event of events) show(event);
    if (!full) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return 0;
}

function gapLine({ after, from }: EventGap): string {
  return `        the store has gone back in time, to before event ${after}; going on after ${from}`;
}

function line(event: RunEvent): string {
  const time = new Date(event.at).toISOString().replace("T", " ").slice(0, 19);
  return `${String(event.seq).padStart(6)}  ${time}  ${event.runId}  ${event.type.padEnd(9)}  ${sanitizeLine(eventText(event))}`;
}
