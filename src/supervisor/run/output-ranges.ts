import type { SpoolRange, StreamName } from "../../anchor/host.js";
import { onAbort } from "../../async/abort.js";

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
