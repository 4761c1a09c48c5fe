import type { OutputSlice, SpoolRange, StreamName } from "../../anchor/host.js";
import { onAbort } from "../../async/abort.js";
import { defaults } from "../../defaults.js";
import type { OutputChunk } from "../api.js";
import type { FollowOptions } from "../run-options.js";

export const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** What is known of one stream's spool. */
export interface OutputRange {
  readonly start: number;
  readonly end: number;
  readonly dropped: number;
  /** No byte comes after `end`. */
  readonly closed: boolean;
}

const EMPTY_RANGE: OutputRange = { start: 0, end: 0, dropped: 0, closed: false };

/** How far a run's output has come, and who wants to know when it goes on. */
export class OutputRanges {
  readonly #ranges: Record<StreamName, OutputRange> = { stdout: EMPTY_RANGE, stderr: EMPTY_RANGE };
  readonly #acked: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  /** Where a follower begins that names no offset. */
  readonly #first: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  #version = 0;
  #ended = false;
  readonly #waiting = new Set<() => void>();

  /** Grows with every change. Read it before looking, wait for `changed` since then: no wake-up is missed. */
  get version(): number {
    return this.#version;
  }

  /** The run is over: what the spool holds now is all there will ever be. */
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

  /** True: there is more of it than before. */
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

  /** A run taken up from an earlier owner: followers go on where that one's effects ended. */
  setFirstOffset(stream: StreamName, offset: number): void {
    this.#first[stream] = offset;
  }

  /** The anchor's own account, at the begin of a connection. */
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

  /** Over as well when the signal aborts: who has stopped waiting is not kept. */
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
 * Live output until every stream asked for has ended and been yielded whole. Each follower has cursors of its own and
 * consumes nothing. Aborting ends the iteration without an error.
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
