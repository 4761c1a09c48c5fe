import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import type { StreamName } from "../../anchor/host-interface.js";
import type { RunEvent } from "../../model/run-event.js";
import { sanitizeText } from "../../text/sanitize.js";
import type { ReadApi } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { retryOverRestarts } from "../client/reconnect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { openStoreRunView } from "../client/read-runs.js";
import { formatSize } from "../../text/format-units.js";
import { lostOutputText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printOrThrow, toJson } from "../print/write-output.js";

/** The last lines, lines from one on, bytes from one on (all of them, or one page), or output since a time. */
type LogSelection =
  | { readonly lines: number; readonly skip?: number }
  | { readonly offset: number; readonly maxBytes?: number }
  | { readonly since: number };

export interface LogsRequest {
  readonly wanted: string;
  readonly streams: readonly StreamName[];
  readonly page: LogSelection;
  readonly follow?: true;
  readonly raw?: true;
  readonly json?: true;
}

/** The page that one request to the API reads. */
type LogPage =
  | { readonly lines: number; readonly skip?: number }
  | { readonly offset: number; readonly maxBytes: number };

/** Lines of each stream that fit a terminal's scrollback. */
const TERMINAL_LINES = 200;
/** The largest page of the API. */
const PAGE_BYTES = 1_048_576;
const POLL_MS = 100;

/** The options of `logs`. */
export interface LogsFlags extends Pick<LogsRequest, "follow" | "raw" | "json"> {
  readonly lines?: number | "all";
  readonly since?: number;
  readonly stream?: StreamName;
}

/** Without an option, a terminal gets the last lines; a pipe or a file gets everything. */
export function selectLogs({ since, lines = isatty(1) ? TERMINAL_LINES : "all" }: LogsFlags): LogSelection {
  if (since !== undefined) return { since };
  return lines === "all" ? { offset: 0 } : { lines };
}

/** Prints a selection of a run's output and, with `follow`, what comes until the run has ended. */
export async function showLogs(request: LogsRequest): Promise<number> {
  const { wanted, streams, page, follow = false, raw = false, json = false } = request;
  await using reader = await openReadClient();
  const { client } = reader;
  const runId = await resolveRunId(reader, wanted);
  const write = follow ? printOrThrow : print;
  const next: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  let reached = false;
  /** Prints one page; returns its first offset and whether it had new bytes. */
  const show = async (stream: StreamName, part: LogPage): Promise<{ first: number; moved: boolean }> => {
    const query = { stream, ...part, ...(raw ? { raw: "1" as const } : {}) };
    const piece = await retryOverRestarts(() => client.log({ params: { runId }, query }), reached);
    reached = true;
    const { text, skipped, nextOffset, offset } = piece;
    // A gateway of an earlier version does not send `lost`.
    const lost = (piece.lost as number | undefined) ?? 0;
    if (json && (text !== "" || skipped > 0)) write(toJson(piece));
    if (!json && skipped > lost)
      notice(`${skipped - lost} bytes of ${stream} were dropped: the run wrote more than is kept`, "yellow");
    if (!json && lost > 0) notice(lostOutputText(lost, stream), "yellow");
    if (!json) write(raw ? text : sanitizeText(text));
    const moved = nextOffset > next[stream];
    // The end of a spool file that was just truncated is before the bytes that were printed.
    next[stream] = Math.max(next[stream], nextOffset);
    return { first: offset - skipped, moved };
  };
  const start = "since" in page ? await offsetsAt(client, runId, page.since) : null;
  for (const stream of streams) {
    const part = selectPage(page, start?.[stream] ?? 0);
    const { first } = await show(stream, part);
    if (!("maxBytes" in page) && "offset" in part) while ((await show(stream, nextPage(next[stream]))).moved);
    if (first > 0 && !json) noticeLeftOut(runId, stream, first, page);
  }
  for (let over = !follow; !over;) {
    const query = { ...next, waitMs: 30_000, maxChars: 0 };
    const { run, output } = await retryOverRestarts(() => client.poll({ params: { runId }, query }), reached);
    over = run.state === "exited";
    let news = false;
    for (const { stream, nextOffset } of output)
      if (streams.includes(stream)) while ((await show(stream, nextPage(next[stream]))).moved) news = true;
      else {
        news ||= nextOffset > next[stream];
        next[stream] = nextOffset;
      }
    // Half a character is new, but cannot be shown yet: pause before the next request.
    if (!news && !over) await setTimeout(POLL_MS);
  }
  return 0;
}

function selectPage(page: LogSelection, start: number): LogPage {
  if ("lines" in page) return page;
  if ("since" in page) return nextPage(start);
  return { offset: page.offset, maxBytes: page.maxBytes ?? PAGE_BYTES };
}

function nextPage(offset: number): LogPage {
  return { offset, maxBytes: PAGE_BYTES };
}

/** Reports how much output precedes the page, unless the user selected where it begins. */
function noticeLeftOut(runId: string, stream: StreamName, bytes: number, page: LogSelection): void {
  if ("offset" in page || ("lines" in page && page.skip !== undefined)) return;
  notice(
    `${formatSize(bytes)} of earlier ${stream} not shown; holdfast logs ${runId} -n all prints it`,
    "dim",
  );
}

/** How much of each stream was written by a time, from the record and the output heartbeats of the run. */
async function offsetsAt(client: ReadApi, runId: string, time: number): Promise<Record<StreamName, number>> {
  let found = { stdout: 0, stderr: 0 };
  const { run, output } = await client.poll({ params: { runId }, query: { maxChars: 0 } });
  if (run.lastOutputAt !== null && run.lastOutputAt <= time) {
    for (const { stream, nextOffset } of output) found = { ...found, [stream]: nextOffset };
    return found;
  }
  await using store = await openStoreRunView();
  for (let after = 0; ;) {
    const events: readonly RunEvent[] = (await store?.listEvents({ runId, after, limit: EVENTS_PAGE })) ?? [];
    for (const event of events)
      if (event.type === "output" && event.at <= time)
        found = { stdout: event.data.stdout, stderr: event.data.stderr };
    const last = events.at(-1);
    if (last === undefined || last.at > time || events.length < EVENTS_PAGE) return found;
    after = last.seq;
  }
}

const EVENTS_PAGE = 1_000;
