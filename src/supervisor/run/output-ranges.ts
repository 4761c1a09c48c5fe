import type { OutputSlice, SpoolRange, StreamName } from "../../anchor/host.js";
import { onAbort } from "../../async/abort.js";
import { defaults } from "../../defaults.js";
import type { OutputChunk } from "../api.js";
import type { FollowOptions } from "../run-options.js";

export const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** The bytes of one stream in its spool. */
export interface OutputRange {
  readonly start: number;
  readonly end: number;
  readonly dropped: number;
  /** The stream has ended at `end`. */
  readonly closed: boolean;
}

const EMPTY_RANGE: OutputRange = { start: 0, end: 0, dropped: 0, closed: false };

/** The ranges of a run's output, and the followers that wait for more. */
export class OutputRanges {
  readonly #ranges: Record<StreamName, OutputRange> = { stdout: EMPTY_RANGE, stderr: EMPTY_RANGE };
  readonly #acked: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  /** Where a follower without an offset begins. */
  readonly #first: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  #version = 0;
  #ended = false;
  readonly #waiting = new Set<() => void>();

  /** Grows with every change. Read it before the ranges and pass it to `changed`, so that no change is missed. */
  get version(): number {
    return this.#version;
  }

  /** The run has ended: nothing is added to the spool. */
  get ended(): boolean {
    return this.#ended;
  }

  range(stream: StreamName): OutputRange {
    return this.#ranges[stream];
  }

  unacked(stream: StreamName): number {
    return this.#ranges[stream].end - this.#acked[stream];
  }

  firstOffset(stream: StreamName): number {
    return this.#first[stream];
  }

  /** True: the stream has grown. */
  update(stream: StreamName, range: OutputRange): boolean {
    const known = this.#ranges[stream];
    this.#ranges[stream] = {
      ...range,
      end: Math.max(known.end, range.end),
      closed: known.closed || range.closed,
    };
    this.wake();
    return range.end > known.end;
  }

  /** After a reattach, followers begin where the earlier owner had acknowledged. */
  setFirstOffset(stream: StreamName, offset: number): void {
    this.#first[stream] = offset;
  }

  /** The anchor's ranges at the begin of a connection. */
  applyWelcome(stream: StreamName, range: SpoolRange): void {
    this.#acked[stream] = Math.max(this.#acked[stream], range.acked);
    this.update(stream, range);
  }

  setAcked(stream: StreamName, offset: number): void {
    this.#acked[stream] = Math.max(this.#acked[stream], offset);
  }

  end(): void {
    this.#ended = true;
    this.wake();
  }

  /** Resolves also when the signal aborts. */
  changed(since: number, signal?: AbortSignal): Promise<void> {
    if (since !== this.#version || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done);
        stopListening?.();
        resolve();
      };
      const stopListening = signal === undefined ? null : onAbort(signal, done);
      this.#waiting.add(done);
    });
  }

  wake(): void {
    this.#version++;
    for (const each of [...this.#waiting]) each();
  }
}

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

/**
 * Yields live output until every requested stream has ended. Each follower has its own cursors, so all see the same
 * bytes. Aborting ends the iteration without an error.
 */
export async function* followStreams(
  source: FollowSource,
  { streams = STREAMS, offsets = {}, ack = false, signal }: FollowOptions = {},
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
      // Read before the ranges, so that `changed` notices a change in between.
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

/** Null: there is nothing now. Marks the cursor as done when nothing can follow. */
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
  // After the end, read the spool: if the anchor died, the range is out of date.
  const slice = await source.read(cursor.stream, cursor.offset, defaults.followBytes);
  if (slice.bytes.length > 0 || slice.offset > cursor.offset) return slice;
  // The anchor closes a stream after it has stored all of it, so missing bytes are lost.
  const lost = closed ? end - Math.max(cursor.offset, start) : 0;
  if (lost > 0) return { offset: end, bytes: slice.bytes, lost };
  cursor.done = closed || ended;
  return null;
}
