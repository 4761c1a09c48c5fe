import { setTimeout } from "node:timers/promises";
import type { StreamName } from "../../anchor/host.js";
import { GatewayUnreachable, HoldfastError } from "../../errors.js";
import { sanitizeText } from "../../text/sanitize.js";
import { openReadClient } from "../client/read-client.js";
import { lostOutputText } from "../print/run-event.js";
import { notice } from "../print/stderr.js";
import { print, printOrThrow, toJson } from "../print/stdout.js";
import { resolveRunId } from "../client/resolve-run.js";

/** The last lines, lines from one on, or bytes from one on. */
export type LogSelection =
  | { readonly lines: number; readonly skip?: number }
  | { readonly offset: number; readonly maxBytes: number };

export interface LogsRequest {
  readonly wanted: string;
  readonly streams: readonly StreamName[];
  readonly page: LogSelection;
  readonly follow: boolean;
  readonly raw: boolean;
  readonly json: boolean;
}

/** A page of a run's output, and then, if asked for, what comes. */
export async function showLogs({ wanted, streams, page, follow, raw, json }: LogsRequest): Promise<number> {
  await using reader = await openReadClient();
  const { client } = reader;
  const runId = await resolveRunId(reader, wanted);
  const tell = follow ? printOrThrow : print;
  const from: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  let begun = false;
  /** False: it got no further. */
  const show = async (stream: StreamName, part: LogSelection): Promise<boolean> => {
    const query = { stream, ...part, ...(raw ? { raw: "1" as const } : {}) };
    const piece = await retryOverRestarts(() => client.log({ params: { runId }, query }), begun);
    begun = true;
    const { text, skipped, nextOffset } = piece;
    // A gateway from before an upgrade does not say it.
    const lost = (piece.lost as number | undefined) ?? 0;
    if (json && (text !== "" || skipped > 0)) tell(toJson(piece));
    if (!json && skipped > lost) notice(`${skipped - lost} bytes of ${stream} were dropped`, "yellow");
    if (!json && lost > 0) notice(lostOutputText(lost, stream), "yellow");
    if (!json) tell(raw ? text : sanitizeText(text));
    const further = nextOffset > from[stream];
    from[stream] = nextOffset;
    return further;
  };
  for (const stream of streams) await show(stream, page);
  for (let over = !follow; !over;) {
    const query = { ...from, waitMs: 30_000, maxChars: 0 };
    const { run, output } = await retryOverRestarts(() => client.poll({ params: { runId }, query }), begun);
    over = run.state === "exited";
    let news = false;
    for (const { stream, nextOffset } of output)
      if (streams.includes(stream))
        while (await show(stream, { offset: from[stream], maxBytes: PAGE_BYTES })) news = true;
      else {
        news ||= nextOffset > from[stream];
        from[stream] = nextOffset;
      }
    // Half a character is news that cannot be shown: the other half is looked for now and then.
    if (!news && !over) await setTimeout(POLL_MS);
  }
  return 0;
}

/** The most that a page may hold. */
const PAGE_BYTES = 1_048_576;
/** A gateway that is restarted is back well within this. */
const RESTART_MS = 10_000;
const POLL_MS = 100;

/** The run goes on while its gateway is restarted, here or (once it was reached) on its host, and so does who follows it. */
async function retryOverRestarts<Answer>(ask: () => Promise<Answer>, begun: boolean): Promise<Answer> {
  for (let until: number | null = null; ;) {
    try {
      return await ask();
    } catch (error) {
      until ??= performance.now() + RESTART_MS;
      const away =
        error instanceof GatewayUnreachable ||
        (begun && error instanceof HoldfastError && error.code === "PEER_UNREACHABLE");
      if (!away || performance.now() > until) throw error;
    }
    await setTimeout(POLL_MS);
  }
}
