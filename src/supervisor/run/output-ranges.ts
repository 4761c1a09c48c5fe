import type { SpoolRange, StreamName } from "../../anchor/host-interface.js";
import { onAbort } from "../../async/abort.js";

export const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** The bytes of one stream in its spool. */
interface OutputRange {
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
