import { request } from "./client.js";
import type { OutputPiece } from "./types.js";

export type Stream = OutputPiece["stream"];

/** Beyond the end of every stream. */
const BEYOND = 2 ** 52;

/** The bytes that are kept of a stream: from `first` up to `end`. */
export interface KeptRange {
  readonly first: number;
  readonly end: number;
}

export async function readKeptRange(runId: string, stream: Stream, signal: AbortSignal): Promise<KeptRange> {
  const read = (offset: number) =>
    request("log", { params: { runId }, query: { stream, offset, maxBytes: 4 }, signal });
  const [oldest, newest] = await Promise.all([read(0), read(BEYOND)]);
  return { first: oldest.offset, end: newest.nextOffset };
}

/** One page of a stream. `raw`: the text as it was written; otherwise it is safe to show. */
export function readLogPage(
  runId: string,
  { stream, offset, maxBytes, raw = false }: PageRequest,
  signal: AbortSignal,
): Promise<OutputPiece> {
  const query = { stream, offset, maxBytes, ...(raw ? { raw: "1" as const } : {}) };
  return request("log", { params: { runId }, query, signal });
}

interface PageRequest {
  readonly stream: Stream;
  readonly offset: number;
  readonly maxBytes: number;
  readonly raw?: boolean;
}
