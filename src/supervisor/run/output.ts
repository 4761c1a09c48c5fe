import type { AnchorHost, OutputSlice, RunAddress, StreamName } from "../../anchor/host-interface.js";
import { onAbort } from "../../async/abort.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { OutputChunk } from "../api.js";
import type { FollowOptions, ReadOptions } from "../check-options.js";
import { type LiveRun, runEventBase } from "./live-run.js";
import { type OutputRanges, STREAMS } from "./output-ranges.js";

/**
 * With `discardOutput`, removes the run's directory when its end is committed, it has no follower, and a caller knows
 * the end. The last condition keeps the output of a command that ends before `spawn` returns.
 */
export function discardUnusedOutput(live: LiveRun): void {
  if (!canDiscard(live)) return;
  // In the next turn of the event loop: a caller that awaited the end may start to read.
  live.context.clock.setTimer(
    0,
    () => {
      if (!canDiscard(live)) return;
      live.discarded = true;
      live.context.track(live.facts.runId, live.context.host.removeRunDirectory(live.facts.address));
    },
    { keepAlive: true },
  );
}

function canDiscard(live: LiveRun): boolean {
  return (
    live.context.discardOutput &&
    live.outputSeen &&
    live.followers === 0 &&
    !live.discarded &&
    live.state.name === "exited" &&
    !live.context.runs.has(live.facts.runId)
  );
}

/** The output of a run that this supervisor owns. The end of a stream is known from its anchor, without a search. */
export async function readLiveOutput(
  { context, facts, outputRanges }: LiveRun,
  stream: StreamName,
  options: ReadOptions = {},
): Promise<OutputChunk> {
  const { closed, end } = outputRanges.range(stream);
  const { offset = 0, maxBytes = 0 } = options;
  checkOffset("offset", offset);
  checkOffset("maxBytes", maxBytes);
  if (closed && offset >= end) return { stream, offset, bytes: NO_BYTES };
  return readOutput(context.host, facts.address, stream, options);
}

const NO_BYTES = new Uint8Array(0);

export async function readOutput(
  host: Pick<AnchorHost, "readOutput">,
  run: RunAddress,
  stream: StreamName,
  options: ReadOptions = {},
): Promise<OutputChunk> {
  const { offset = 0, maxBytes = defaults.followBytes } = options;
  checkOffset("offset", offset);
  checkOffset("maxBytes", maxBytes);
  const slice = await host.readOutput(run, stream, offset, maxBytes);
  return { stream, ...slice };
}

/** A follower keeps the run's output until it is done. */
export async function* followOutput(
  live: LiveRun,
  options?: FollowOptions,
): AsyncGenerator<OutputChunk, void, undefined> {
  live.followers++;
  try {
    const { address } = live.facts;
    yield* followStreams(
      {
        outputRanges: live.outputRanges,
        read: (...wanted) => live.context.host.readOutput(address, ...wanted),
        ack: (stream, offset) => ackOutput(live, stream, offset),
      },
      options,
    );
  } finally {
    live.followers--;
    live.outputSeen = true;
    discardUnusedOutput(live);
  }
}

export function ackOutput(live: LiveRun, stream: StreamName, offset: number): void {
  checkOffset("offset", offset);
  live.outputRanges.setAcked(stream, offset);
  live.link?.acknowledge(stream, offset);
  updateWithheld(live);
}

/** The anchor does not read while the unacknowledged output is at its bound, or while the disk is full. */
export function updateWithheld(live: LiveRun): void {
  live.deadlines.setWithheld(
    STREAMS.some((stream) => {
      const bound = live.facts.withholdAt[stream];
      return live.withheld[stream] || (bound !== null && live.outputRanges.unacked(stream) >= bound);
    }),
  );
}

/** Records and reports an increase of the missing output. */
export function recordLostOutput(live: LiveRun, stream: StreamName, lost: number): void {
  if (lost <= live.lostBytes[stream]) return;
  live.lostBytes[stream] = lost;
  const { runId } = live.facts;
  const at = live.context.clock.wall();
  live.writeQueue.enqueue(null, [{ ...runEventBase(live, at), type: "output-lost", data: { stream, lost } }]);
  const message = `run ${runId}: ${lost} bytes of ${stream} are missing: a spool file was truncated or removed; the run continues`;
  live.context.report({ runId, message, cause: null });
}

function checkOffset(field: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new BadInput(field, `${field} must be a whole number of bytes, 0 or more, not ${value}`);
}

export interface FollowSource {
  readonly outputRanges: OutputRanges;
  read(stream: StreamName, offset: number, maxBytes: number, into?: Uint8Array): Promise<OutputSlice>;
  ack(stream: StreamName, offset: number): void;
}

interface StreamCursor {
  readonly stream: StreamName;
  offset: number;
  done: boolean;
}

/**
 * Yields live output until every requested stream has ended. Each follower has its own cursors, so all see the same
 * bytes. Aborting ends the iteration without an error.
 */
export async function* followStreams(
  source: FollowSource,
  { streams = STREAMS, offsets = {}, ack = false, buffer, signal }: FollowOptions = {},
): AsyncGenerator<OutputChunk, void, undefined> {
  if (buffer?.length === 0) throw new BadInput("buffer", "buffer must have room for at least one byte");
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
      // Read before the ranges, so that `changed` notices a change in between.
      const { version, ended } = outputRanges;
      let yielded = false;
      for (const cursor of cursors) {
        if (signal?.aborted === true) return;
        const slice = await nextSlice(source, cursor, ended, buffer);
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

/** Null: there is nothing now. Marks the cursor as done when nothing can follow. */
async function nextSlice(
  source: FollowSource,
  cursor: StreamCursor,
  ended: boolean,
  buffer: Uint8Array | undefined,
): Promise<OutputSlice | null> {
  if (cursor.done) return null;
  const { start, end, closed } = source.outputRanges.range(cursor.stream);
  if (cursor.offset >= end && (closed || !ended)) {
    cursor.done = closed;
    return null;
  }
  // After the end, read the spool: if the anchor died, the range is out of date.
  const slice = await source.read(
    cursor.stream,
    cursor.offset,
    buffer?.length ?? defaults.followBytes,
    buffer,
  );
  if (slice.bytes.length > 0 || slice.offset > cursor.offset) return slice;
  // The anchor closes a stream after it has stored all of it, so missing bytes are lost.
  const lost = closed ? end - Math.max(cursor.offset, start) : 0;
  if (lost > 0) return { offset: end, bytes: slice.bytes, lost };
  cursor.done = closed || ended;
  return null;
}
