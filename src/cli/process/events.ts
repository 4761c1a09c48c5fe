import { RunNotFound, StoreAway } from "../../errors.js";
import type { RunEvent } from "../../model/run-event.js";
import { EventCursor, type EventGap } from "../../store/runs/event-cursor.js";
import type { ReadStore } from "../../store/store.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { hostFilter, readKnownHosts } from "../client/known-hosts.js";
import { resolveRunRecord } from "../client/resolve-run.js";
import { openStoreRunView } from "../client/run-view.js";
import { runEventText } from "../print/run-event.js";
import { notice } from "../print/stderr.js";
import { print, printOrThrow, toJson } from "../print/stdout.js";

export interface EventsRequest {
  readonly run: string | null;
  readonly host: string | null;
  readonly after: number;
  readonly limit: number;
  readonly follow: boolean;
  readonly json: boolean;
}

/** How late an event of another process is noticed. */
const POLL_MS = 200;

/** What happened, in order. Reads the store: it needs no gateway, and changes nothing. */
export async function showEvents(request: EventsRequest): Promise<number> {
  const { run, host, after, limit, follow, json } = request;
  await using store = await openStoreRunView();
  if (store === null) {
    if (run !== null) throw new RunNotFound(run);
    return 0;
  }
  const hosts = await readKnownHosts(store);
  const filter = {
    ...(run === null ? {} : { runId: (await resolveRunRecord(store, run)).runId }),
    ...hostFilter(hosts, host),
  };
  const hostIdOf = hostIdLookup(store);
  const tell = follow ? printOrThrow : print;
  const show = async (event: RunEvent): Promise<void> => {
    const hostId = json || hosts.hasSeveral ? await hostIdOf(event.runId) : null;
    if (json) {
      const hostName = hostId === null ? null : hosts.nameOf(hostId);
      tell(toJson({ ...event, hostId, hostName }));
    } else tell(`${eventLine(event, hostId === null ? null : hosts.displayName(hostId))}\n`);
  };
  const newest = await store.listEvents({ ...filter, after, newestFirst: true, limit });
  for (const event of newest.toReversed()) await show(event);
  const cursor = new EventCursor(store, newest[0]?.seq ?? after, filter);
  let away = false;
  while (follow) {
    const { gap, events, full } = await cursor.next(500).catch((error: unknown) => {
      if (!(error instanceof StoreAway)) throw error;
      if (!away) notice(`${error.message} Going on when it is back.`, "yellow");
      away = true;
      return { gap: null, events: [], full: false };
    });
    if (gap !== null) tell(json ? toJson(gap) : `${gapLine(gap)}\n`);
    if (events.length > 0) away = false;
    for (const event of events) await show(event);
    if (!full) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return 0;
}

/** Null: its run has been forgotten. Runs do not move, so each is looked up once. */
function hostIdLookup(store: Pick<ReadStore, "getRun">): (runId: string) => Promise<string | null> {
  const known = new Map<string, string>();
  return async (runId) => {
    const hostId = known.get(runId) ?? (await store.getRun(runId))?.hostId ?? null;
    if (hostId !== null) known.set(runId, hostId);
    return hostId;
  };
}

function gapLine({ after, from }: EventGap): string {
  return `        the store has gone back in time, to before event ${after}; going on after ${from}`;
}

function eventLine(event: RunEvent, host: string | null): string {
  const time = new Date(event.at).toISOString().replace("T", " ").slice(0, 19);
  const where = host === null ? "" : `${host}  `;
  return `${String(event.seq).padStart(6)}  ${time}  ${where}${event.runId}  ${event.type.padEnd(9)}  ${sanitizeLine(runEventText(event))}`;
}
