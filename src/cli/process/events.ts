import { RunNotFound, StoreAway } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { EventCursor, type EventGap } from "../../store/event-cursor.js";
import type { RunEvent } from "../../store/run-event.js";
import type { ReadStore } from "../../store/store.js";
import { say } from "../complain.js";
import { onHosts, readHosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { eventText } from "../runs/event-text.js";
import { findRecord } from "../runs/find-record.js";
import { print, printOn } from "../runs/print.js";
import { openStoreForReading } from "../runs/read-store.js";

export interface EventsRequest {
  readonly run: string | null;
  readonly host: string | null;
  readonly after: number;
  readonly limit: number;
  readonly follow: boolean;
  readonly json: boolean;
}

/** How late an event of another process is noticed. */
const LOOK_MS = 200;

/** What happened, in order. Reads the store: it needs no gateway, and changes nothing. */
export async function showEvents(request: EventsRequest): Promise<number> {
  const { run, host, after, limit, follow, json } = request;
  await using store = await openStoreForReading();
  if (store === null) {
    if (run !== null) throw new RunNotFound(run);
    return 0;
  }
  const hosts = await readHosts(store);
  const filter = {
    ...(run === null ? {} : { runId: (await findRecord(store, run)).runId }),
    ...onHosts(hosts, host),
  };
  const hostIdOf = hostsOfRuns(store);
  const tell = follow ? printOn : print;
  const show = async (event: RunEvent): Promise<void> => {
    const hostId = json || hosts.several ? await hostIdOf(event.runId) : null;
    if (json) {
      const hostName = hostId === null ? null : hosts.nameOf(hostId);
      tell(toJson({ ...event, hostId, hostName }));
    } else tell(`${line(event, hostId === null ? null : hosts.shown(hostId))}\n`);
  };
  const newest = await store.listEvents({ ...filter, after, newestFirst: true, limit });
  for (const event of newest.toReversed()) await show(event);
  const cursor = new EventCursor(store, newest[0]?.seq ?? after, filter);
  let away = false;
  while (follow) {
    const { gap, events, full } = await cursor.next(500).catch((error: unknown) => {
      if (!(error instanceof StoreAway)) throw error;
      if (!away) say(`${error.message} Going on when it is back.`, "yellow");
      away = true;
      return { gap: null, events: [], full: false };
    });
    if (gap !== null) tell(json ? toJson(gap) : `${gapLine(gap)}\n`);
    if (events.length > 0) away = false;
    for (const event of events) await show(event);
    if (!full) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return 0;
}

/** Null: its run has been forgotten. Runs do not move, so each is looked up once. */
function hostsOfRuns(store: Pick<ReadStore, "getRun">): (runId: string) => Promise<string | null> {
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

function line(event: RunEvent, host: string | null): string {
  const time = new Date(event.at).toISOString().replace("T", " ").slice(0, 19);
  const where = host === null ? "" : `${host}  `;
  return `${String(event.seq).padStart(6)}  ${time}  ${where}${event.runId}  ${event.type.padEnd(9)}  ${sanitizeLine(eventText(event))}`;
}
