import { setTimeout } from "node:timers/promises";
import { RunNotFound, StoreAway } from "../../errors.js";
import type { RunEvent } from "../../model/run-event.js";
import { EventCursor, type EventGap } from "../../store/runs/event-cursor.js";
import type { EventFilter } from "../../store/runs/contract.js";
import type { ReadStore } from "../../store/store.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { resolveRunRecord } from "../client/resolve-run.js";
import { hostFilter, readKnownHosts } from "../client/store-hosts.js";
import { openStoreRunView } from "../client/read-runs.js";
import { runEventText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printOrThrow, toJson } from "../print/write-output.js";

/** The options of `events`. */
export interface EventsRequest {
  readonly run?: string;
  readonly host?: string;
  readonly after: number;
  readonly limit: number;
  /** Also output heartbeats. */
  readonly all?: true;
  readonly follow?: true;
  readonly json?: true;
}

/** How long an event of another process may go unnoticed. */
const POLL_MS = 200;
const PAGE = 500;

/** Prints events in order. Reads the store; needs no gateway. */
export async function showEvents(request: EventsRequest): Promise<number> {
  const { run, host, after, limit, all: heartbeats = false, follow = false, json = false } = request;
  await using store = await openStoreRunView();
  if (store === null) {
    if (run !== undefined) throw new RunNotFound(run);
    return 0;
  }
  const hosts = await readKnownHosts(store);
  const filter = {
    ...(run === undefined ? {} : { runId: (await resolveRunRecord(store, run)).runId }),
    ...hostFilter(hosts, host),
  };
  const hostIdOf = hostIdLookup(store);
  const write = follow ? printOrThrow : print;
  const show = async (event: RunEvent): Promise<void> => {
    if (!heartbeats && event.type === "output") return;
    const hostId = json || hosts.hasSeveral ? await hostIdOf(event.runId) : null;
    if (json) {
      const hostName = hostId === null ? null : hosts.nameOf(hostId);
      write(toJson({ ...event, hostId, hostName }));
    } else write(`${eventLine(event, hostId === null ? null : hosts.displayName(hostId))}\n`);
  };
  const { events, last } = await newestEvents(store, { ...filter, after }, limit, heartbeats);
  for (const event of events) await show(event);
  const cursor = new EventCursor(store, last ?? after, filter);
  let away = false;
  while (follow) {
    const next = await cursor.next(PAGE).catch((error: unknown) => {
      if (!(error instanceof StoreAway)) throw error;
      if (!away) notice(`${error.message} Continuing when it is available again.`, "yellow");
      away = true;
      return { gap: null, events: [], full: false };
    });
    if (next.gap !== null) write(json ? toJson(next.gap) : `${gapLine(next.gap)}\n`);
    if (next.events.length > 0) away = false;
    for (const event of next.events) await show(event);
    if (!next.full) await setTimeout(POLL_MS);
  }
  return 0;
}

/** The newest `limit` events that are shown, oldest first; `last`: the number of the newest event of all. */
export async function newestEvents(
  store: Pick<ReadStore, "listEvents">,
  filter: EventFilter & { readonly after: number },
  limit: number,
  heartbeats: boolean,
): Promise<{ readonly events: readonly RunEvent[]; readonly last: number | null }> {
  if (heartbeats) {
    const newest = await store.listEvents({ ...filter, newestFirst: true, limit });
    return { events: newest.toReversed(), last: newest[0]?.seq ?? null };
  }
  // The store cannot leave out heartbeats, which are most events of a busy run: read more until there are enough.
  for (let read = 2 * limit; ; read *= 4) {
    const newest = await store.listEvents({ ...filter, newestFirst: true, limit: read });
    const events = newest.filter(({ type }) => type !== "output").slice(0, limit);
    if (events.length === limit || newest.length < read)
      return { events: events.toReversed(), last: newest[0]?.seq ?? null };
  }
}

/** Null: the run's record was deleted. Runs do not move, so each is looked up once. */
function hostIdLookup(store: Pick<ReadStore, "getRun">): (runId: string) => Promise<string | null> {
  const known = new Map<string, string>();
  return async (runId) => {
    const hostId = known.get(runId) ?? (await store.getRun(runId))?.hostId ?? null;
    if (hostId !== null) known.set(runId, hostId);
    return hostId;
  };
}

function gapLine({ after, from }: EventGap): string {
  return `        the store was rolled back to before event ${after}; continuing after event ${from}`;
}

function eventLine(event: RunEvent, host: string | null): string {
  const time = new Date(event.at).toISOString().replace("T", " ").slice(0, 19);
  const where = host === null ? "" : `${host}  `;
  return `${String(event.seq).padStart(6)}  ${time}  ${where}${event.runId}  ${event.type.padEnd(9)}  ${sanitizeLine(runEventText(event))}`;
}
