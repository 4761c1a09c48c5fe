import type { ProcessIdentity } from "../../model/process.js";
import type { AnchorExit, RunScope, StreamName } from "../run-dir/run-file-types.js";
import type { ConnectionListener, MessageConnection } from "./connection.js";
import type { StartAttempt } from "./errors.js";
import { decodeEvent, streamNumber } from "./events.js";
import { MalformedFrame } from "./frame.js";
import { type AnchorMessage, encodeMessage } from "./message-codec.js";
import { abandonFrame, adoptFrame, newRunKey, policyFrame, signalFrame, stopFrame } from "./requests.js";
import type {
  AnchorEvent,
  AnchorLink,
  AnchorPolicy,
  MemberSignal,
  StopRequest,
  TerminalSize,
  Welcome,
} from "./link-contract.js";

/** Well below the frame limit; a pipe holds 64 KiB. */
const MAX_WRITE_BYTES = 64 * 1024;

const GO = encodeMessage("go", {});
const HEARTBEAT = encodeMessage("heartbeat", {});
const STATUS = encodeMessage("status", {});

type EventListener = (event: AnchorEvent) => void;

interface LinkCallbacks {
  readExit(): Promise<AnchorExit | null>;
  onClosed(): void;
}

/** A connection that an anchor has answered. Buffers events until a listener is set. */
export class NativeLink implements AnchorLink, ConnectionListener {
  readonly welcome: Welcome;
  readonly #connection: MessageConnection;
  readonly #attempt: StartAttempt | null;
  readonly #callbacks: LinkCallbacks;
  #listener: EventListener | null = null;
  #bufferedEvents: AnchorEvent[] = [];
  #exitReported = false;

  constructor(
    welcome: Welcome,
    connection: MessageConnection,
    attempt: StartAttempt | null,
    run: LinkCallbacks,
  ) {
    this.welcome = welcome;
    this.#connection = connection;
    this.#attempt = attempt;
    this.#callbacks = run;
  }

  listen(listener: EventListener): void {
    if (this.#listener !== null) throw new Error("an anchor link has one listener");
    this.#listener = listener;
    const waiting = this.#bufferedEvents;
    this.#bufferedEvents = [];
    for (const event of waiting) listener(event);
  }

  go(): void {
    this.#connection.send(GO);
  }

  stop(stop: StopRequest): void {
    this.#connection.send(stopFrame(stop));
  }

  write(offset: number, data: Uint8Array): void {
    for (let at = 0; at < data.length; at += MAX_WRITE_BYTES) {
      const part = data.subarray(at, at + MAX_WRITE_BYTES);
      this.#connection.send(encodeMessage("write", { offset: offset + at, data: part }, part.length + 64));
    }
  }

  closeStdin(offset: number): void {
    this.#connection.send(encodeMessage("closeStdin", { offset }));
  }

  resize({ rows, cols }: TerminalSize): void {
    this.#connection.send(encodeMessage("resize", { rows, cols }));
  }

  acknowledge(stream: StreamName, offset: number): void {
    this.#connection.send(encodeMessage("ack", { stream: streamNumber(stream), offset }));
  }

  setPolicy(change: Partial<AnchorPolicy>): void {
    this.#connection.send(policyFrame(change));
  }

  heartbeat(): void {
    this.#connection.send(HEARTBEAT);
  }

  adopt(runId: string, root: ProcessIdentity, graceMs: number, scope?: RunScope): void {
    this.#connection.send(adoptFrame(runId, newRunKey(), root, graceMs, scope ?? null));
  }

  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): void {
    this.#connection.send(signalFrame(processes, signal));
  }

  requestMembers(requestId: string): void {
    this.#connection.send(encodeMessage("members", { requestId }));
  }

  requestStatus(): void {
    this.#connection.send(STATUS);
  }

  abandon(by: { readonly actor: string; readonly requestId: string }): void {
    this.#connection.send(abandonFrame(by));
  }

  close(): void {
    this.#exitReported = true;
    this.#connection.close();
  }

  message(message: AnchorMessage): void {
    const event = decodeEvent(message, this.#attempt);
    if (event === null) return;
    if (event.type === "exited") this.#exitReported = true;
    this.#emit(event);
  }

  closed(error: Error | null): void {
    this.#callbacks.onClosed();
    // A protocol violation is reported; a lost connection is not, because `closed` reports it.
    if (error instanceof MalformedFrame) {
      this.#emit({ type: "refused", code: "bad-frame", message: error.message, epoch: null });
    }
    if (this.#exitReported) this.#emit({ type: "closed" });
    else void this.#closeWithExitFile();
  }

  /**
   * A write to an anchor that has just exited breaks the connection before its EXITED message is read. The exit file
   * has the same content.
   */
  async #closeWithExitFile(): Promise<void> {
    const exit = await this.#callbacks.readExit().catch(() => null);
    if (exit !== null) this.#emit({ type: "exited", exit });
    this.#emit({ type: "closed" });
  }

  #emit(event: AnchorEvent): void {
    if (this.#listener === null) this.#bufferedEvents.push(event);
    else this.#listener(event);
  }
}
