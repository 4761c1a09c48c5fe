import {
  type AttachClientMessage,
  type AttachServerMessage,
  decodeFrame,
  openAttachSocket,
} from "../../../api/attach-socket.js";
import { ApiError, request } from "../../../api/client.js";
import { readKeptRange, readLogPage } from "../../../api/log-pages.js";
import { defaults } from "../../../defaults.js";
import { sleep, untilVisible, whileVisible } from "../../../live/page-visibility.js";

export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

/** `ended`: all output of the ended run was passed on. */
export type StreamState = "connecting" | "attached" | "reconnecting" | "ended";

export interface TerminalStreamListener {
  /** Calls `shown` when it has processed the bytes. */
  readonly onBytes: (bytes: Uint8Array, shown: () => void) => void;
  /** So many bytes before the next ones are not shown. */
  readonly onSkipped: (bytes: number) => void;
  readonly onSize: (size: TerminalSize) => void;
  readonly onState: (state: StreamState) => void;
  /** The run did not take the input, or cannot be shown. */
  readonly onProblem: (message: string) => void;
}

/** Output before that is in the log only. */
const TAIL_BYTES = 1024 * 1024;
const PAGE_BYTES = 512 * 1024;
/** Beyond so many unprocessed bytes the connection is closed, and opened again below the other number. */
const MAX_PENDING = 4 * 1024 * 1024;
const LOW_PENDING = 512 * 1024;
const COMPLETE = 1000;
/** A message of a viewer has at most 1 MiB. */
const INPUT_BYTES = 64 * 1024;

/**
 * Output of a run with a terminal, in order, no byte twice and none left out: live over a WebSocket, which continues at
 * the next byte after an interruption; from the log where there is no connection, as after the end of the run.
 */
export class TerminalStream implements Disposable {
  readonly #runId: string;
  readonly #listener: TerminalStreamListener;
  readonly #closed = new AbortController();
  #socket: WebSocket | null = null;
  /** The offset of the next byte. */
  #next = 0;
  #pending = 0;
  #onDrained: () => void = () => undefined;

  constructor(runId: string, listener: TerminalStreamListener) {
    this.#runId = runId;
    this.#listener = listener;
  }

  /** Resolves when the run has ended and all of its output was passed on, or after dispose. */
  async follow(): Promise<void> {
    let begun = false;
    let pauseMs: number = defaults.reconnectFirstMs;
    while (!this.#closed.signal.aborted) {
      await untilVisible();
      try {
        if (!begun) await this.#begin();
        begun = true;
        const before = this.#next;
        if (await this.#readUntilClosed()) return this.#listener.onState("ended");
        if (this.#next > before) pauseMs = defaults.reconnectFirstMs;
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        if (error instanceof ApiError) return this.#listener.onProblem(error.message);
      }
      if (this.#closed.signal.aborted) return;
      this.#listener.onState("reconnecting");
      await sleep(pauseMs, this.#closed.signal);
      pauseMs = Math.min(pauseMs * 2, defaults.reconnectLastMs);
    }
  }

  send(input: Uint8Array<ArrayBuffer>): void {
    if (this.#socket?.readyState !== WebSocket.OPEN)
      return this.#listener.onProblem("not sent: there is no connection to the run");
    for (let at = 0; at < input.length; at += INPUT_BYTES)
      this.#socket.send(input.subarray(at, at + INPUT_BYTES));
  }

  /** Changes the size for the program, and so for all viewers. */
  resize({ rows, cols }: TerminalSize): void {
    const message: AttachClientMessage = { type: "resize", rows, cols };
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
    this.#socket?.close();
    this.#onDrained();
  }

  async #begin(): Promise<void> {
    const { signal } = this.#closed;
    const params = { runId: this.#runId };
    const [{ first, end }, screen] = await Promise.all([
      readKeptRange(this.#runId, "stdout", signal),
      request("screen", { params, signal }).catch(() => null),
    ]);
    if (screen !== null) this.#listener.onSize({ rows: screen.rows.length, cols: screen.cols });
    this.#next = Math.max(first, end - TAIL_BYTES);
    if (this.#next > 0) this.#listener.onSkipped(this.#next);
  }

  /** True: that was all output of the run. */
  async #readUntilClosed(): Promise<boolean> {
    const before = await this.#isEnded();
    if (!before && (await this.#attach())) return true;
    const ended = before || (await this.#isEnded());
    await this.#readLog();
    return ended;
  }

  async #isEnded(): Promise<boolean> {
    const run = await request("getRun", { params: { runId: this.#runId }, signal: this.#closed.signal });
    return run.state === "exited";
  }

  /** Resolves with true when the stream is complete, and with false when the connection is gone. */
  #attach(): Promise<boolean> {
    const socket = openAttachSocket(this.#runId, this.#next);
    const visible = whileVisible(this.#closed.signal);
    visible.signal.addEventListener("abort", () => socket.close(), { once: true });
    this.#socket = socket;
    let dropped = false;
    return new Promise((resolve) => {
      socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) => {
        // Messages after we closed the connection are sent again by the next one.
        dropped ||= socket.readyState !== WebSocket.OPEN;
        if (dropped) return;
        if (typeof data === "string") this.#onMessage(JSON.parse(data) as AttachServerMessage);
        else this.#onFrame(data);
        if (this.#pending > MAX_PENDING) socket.close();
      });
      socket.addEventListener("close", ({ code, wasClean }) => {
        visible[Symbol.dispose]();
        const complete = wasClean && code === COMPLETE && !dropped;
        void this.#drained().then(() => resolve(complete));
      });
    });
  }

  #onMessage(message: AttachServerMessage): void {
    if (message.type === "attached") {
      this.#listener.onState("attached");
      if (message.size !== null) this.#listener.onSize(message.size);
    } else if (message.type === "refused") this.#listener.onProblem(message.message);
  }

  #onFrame(data: ArrayBuffer): void {
    const { stream, offset, bytes } = decodeFrame(data);
    if (stream === "stdout") this.#pass(offset, bytes);
  }

  #pass(offset: number, bytes: Uint8Array): void {
    if (offset > this.#next) this.#listener.onSkipped(offset - this.#next);
    const fresh = bytes.subarray(Math.max(0, this.#next - offset));
    if (fresh.length === 0) return;
    this.#next = Math.max(this.#next, offset) + fresh.length;
    this.#pending += fresh.length;
    this.#listener.onBytes(fresh, () => {
      this.#pending -= fresh.length;
      if (this.#pending <= LOW_PENDING) this.#onDrained();
    });
  }

  async #drained(): Promise<void> {
    if (this.#pending > LOW_PENDING && !this.#closed.signal.aborted)
      await new Promise<void>((resolve) => (this.#onDrained = resolve));
  }

  async #readLog(): Promise<void> {
    for (;;) {
      const wanted = { stream: "stdout", offset: this.#next, maxBytes: PAGE_BYTES, raw: true } as const;
      const page = await readLogPage(this.#runId, wanted, this.#closed.signal);
      if (page.nextOffset <= this.#next) return;
      this.#pass(page.offset, new TextEncoder().encode(page.text));
      // Bytes that are no text came as a replacement character of another length.
      this.#next = page.nextOffset;
      await this.#drained();
    }
  }
}
