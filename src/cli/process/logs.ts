import type { StreamName } from "../../anchor/host.js";
import { GatewayUnreachable } from "../../errors.js";
import { sanitizeText } from "../../output/sanitize.js";
import { openLook } from "../gateway/look.js";
import { print, printOn } from "../runs/print.js";
import { fullRunId } from "./act.js";

/** The last lines, lines from one on, or bytes from one on. */
export type LogPage =
  | { readonly lines: number; readonly skip?: number }
  | { readonly offset: number; readonly maxBytes: number };

export interface LogsRequest {
  readonly wanted: string;
  readonly streams: readonly StreamName[];
  readonly page: LogPage;
  readonly follow: boolean;
  readonly raw: boolean;
  readonly json: boolean;
}

/** A page of a run's output, and then, if asked for, what comes. */
export async function showLogs({ wanted, streams, page, follow, raw, json }: LogsRequest): Promise<number> {
  await using look = await openLook();
  const { client } = look;
  const runId = await fullRunId(look, wanted);
  const tell = follow ? printOn : print;
  const show = (piece: {
    readonly stream: StreamName;
    readonly offset: number;
    readonly text: string;
  }): void => {
    if (piece.text === "") return;
    tell(json ? `${JSON.stringify(piece)}\n` : raw ? piece.text : sanitizeText(piece.text));
  };
  const from: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  for (const stream of streams) {
    const piece = await client.log({
      params: { runId },
      query: { stream, ...page, ...(raw || json ? { raw: "1" } : {}) },
    });
    show(piece);
    from[stream] = piece.nextOffset;
  }
  while (follow) {
    const { run, output } = await overRestarts(() =>
      client.poll({ params: { runId }, query: { ...from, waitMs: 30_000, maxChars: 1_000_000 } }),
    );
    for (const piece of output) {
      if (streams.includes(piece.stream)) show(piece);
      from[piece.stream] = piece.nextOffset;
    }
    if (run.state === "exited" && output.every(({ text }) => text === "")) break;
  }
  return 0;
}

/** A gateway that is restarted is back well within this. */
const RESTART_MS = 10_000;
const LOOK_MS = 100;

/** The run goes on while its gateway is restarted, and so does who follows it. */
async function overRestarts<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let until: number | null = null; ;) {
    try {
      return await ask();
    } catch (error) {
      until ??= performance.now() + RESTART_MS;
      if (!(error instanceof GatewayUnreachable) || performance.now() > until) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
