import { RunNotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { RunEvent } from "../../store/run-event.js";
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
  let last = after;
  const tell = follow ? printOn : print;
  const show = (event: RunEvent): void => {
    last = Math.max(last, event.seq);
    tell(json ? `${JSON.stringify(event)}\n` : `${line(event)}\n`);
  };
  const newest = await store.listEvents({ ...filter, after, newestFirst: true, limit });
  for (const event of newest.toReversed()) show(event);
  while (follow) {
    const next = await store.listEvents({ ...filter, after: last, limit: 500 });
    for (const event of next) show(event);
    if (next.length < 500) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return 0;
}

function line(event: RunEvent): string {
  const time = new Date(event.at).toISOString().replace("T", " ").slice(0, 19);
  return `${String(event.seq).padStart(6)}  ${time}  ${event.runId}  ${event.type.padEnd(9)}  ${sanitizeLine(eventText(event))}`;
}
