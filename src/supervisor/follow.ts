import type { OutputSlice, StreamName } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { onAbort } from "../async/abort.js";
import type { FollowOptions, OutputChunk } from "./api.js";
import type { OutputRanges } from "./run/output-ranges.js";

export interface FollowSource {
  readonly outputRanges: OutputRanges;
  read(stream: StreamName, offset: number, maxBytes: number): Promise<OutputSlice>;
  ack(stream: StreamName, offset: number): void;
}

interface StreamCursor {
  readonly stream: StreamName;
  offset: number;
  done: boolean;
}

const BOTH_STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/**
 * Live output until every stream asked for has ended and been yielded whole. Each follower has cursors of its own and
 * consumes nothing. Aborting ends the iteration without an error.
 */
export async function* followStreams(
  source: FollowSource,
  { streams = BOTH_STREAMS, offsets = {}, ack = false, signal }: FollowOptions = {},
): AsyncGenerator<OutputChunk, void, undefined> {
  const { outputRanges } = source;
  const cursors = streams.map((stream): StreamCursor => ({
    stream,
    offset: offsets[stream] ?? outputRanges.firstOffset(stream),
    done: false,
  }));
  const stopListening =
    signal === undefined || signal.aborted ? null : onAbort(signal, () => outputRanges.wake());
  try {
    for (;;) {
      // Read before looking: what changes while we look is seen by `changed`.
      const { version, ended } = outputRanges;
      let yielded = false;
      for (const cursor of cursors) {
        if (signal?.aborted === true) return;
        const slice = await nextSlice(source, cursor, ended);
        if (slice === null) continue;
        yielded = true;
        cursor.offset = slice.offset + slice.bytes.length;
        yield { stream: cursor.stream, ...slice };
        if (ack) source.ack(cursor.stream, cursor.offset);
      }
      if (signal?.aborted === true || cursors.every((cursor) => cursor.done)) return;
      if (!yielded) await outputRanges.changed(version);
    }
  } finally {
    stopListening?.();
  }
}

/** Null: nothing now; the cursor is done when nothing will ever come. */
async function nextSlice(
  source: FollowSource,
  cursor: StreamCursor,
  ended: boolean,
): Promise<OutputSlice | null> {
  if (cursor.done) return null;
  const { start, end, closed } = source.outputRanges.range(cursor.stream);
  if (cursor.offset >= end && (closed || !ended)) {
    cursor.done = closed;
    return null;
  }
  // After the end the spool has the last word: of a run whose anchor died, nobody else knows how much there is.
  const slice = await source.read(cursor.stream, cursor.offset, defaults.followBytes);
  if (slice.bytes.length > 0 || slice.offset > cursor.offset) return slice;
  // All of a closed stream was stored before its anchor said so: what is not there is lost.
  const lost = closed ? end - Math.max(cursor.offset, start) : 0;
  if (lost > 0) return { offset: end, bytes: slice.bytes, lost };
  cursor.done = closed || ended;
  return null;
}
