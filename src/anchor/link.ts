import type { ProcessIdentity } from "../store/run-record.js";
import { streamNumber, toEvent } from "./event.js";
import type { Attempt } from "./failure.js";
import { MalformedFrame } from "./frame.js";
import type {
  AnchorEvent,
  AnchorExit,
  AnchorLink,
  AnchorPolicy,
  MemberSignal,
  RunScope,
  StopRequest,
  StreamName,
  TerminalSize,
  Welcome,
} from "./host.js";
import { encodeMessage, type Message } from "./message.js";
import { abandonFrame, adoptFrame, newKey, policyFrame, signalFrame, stopFrame } from "./start-message.js";
import type { Wire, WireListener } from "./wire.js";

/** Well below the frame limit; a pipe takes 64 KiB at once anyway. */
const WRITE_BYTES = 64 * 1024;

const GO = encodeMessage("go", {});
const HEARTBEAT = encodeMessage("heartbeat", {});
const STATUS = encodeMessage("status", {});

type Listener = (event: AnchorEvent) => void;

/** What a link needs to know of its run beyond the connection. */
export interface LinkedRun {
  exitFile(): Promise<AnchorExit | null>;
  linkClosed(): void;
}

/** An answered connection to an anchor. Keeps events until somebody listens. */
export class NativeLink implements AnchorLink, WireListener {
  readonly welcome: Welcome;
  readonly #wire: Wire;
  readonly #attempt: Attempt | null;
  readonly #run: LinkedRun;
  #listener: Listener | null = null;
  #waiting: AnchorEvent[] = [];
  #saidAll = false;

  constructor(welcome: Welcome, wire: Wire, attempt: Attempt | null, run: LinkedRun) {
    this.welcome = welcome;
    this.#wire = wire;
    this.#attempt = attempt;
    this.#run = run;
  }

  listen(listener: Listener): void {
    if (this.#listener !== null) throw new Error("an anchor link has one listener");
    this.#listener = listener;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const event of waiting) listener(event);
  }

  go(): void {
    this.#wire.send(GO);
  }

  stop(stop: StopRequest): void {
    this.#wire.send(stopFrame(stop));
  }

  write(offset: number, data: Uint8Array): void {
    for (let at = 0; at < data.length; at += WRITE_BYTES) {
      const part = data.subarray(at, at + WRITE_BYTES);
      this.#wire.send(encodeMessage("write", { offset: offset + at, data: part }, part.length + 64));
    }
  }

  closeStdin(offset: number): void {
    this.#wire.send(encodeMessage("closeStdin", { offset }));
  }

  resize({ rows, cols }: TerminalSize): void {
    this.#wire.send(encodeMessage("resize", { rows, cols }));
  }

  ack(stream: StreamName, offset: number): void {
    this.#wire.send(encodeMessage("ack", { stream: streamNumber(stream), offset }));
  }

  policy(change: Partial<AnchorPolicy>): void {
    this.#wire.send(policyFrame(change));
  }

  heartbeat(): void {
    this.#wire.send(HEARTBEAT);
  }

  adopt(runId: string, root: ProcessIdentity, graceMs: number, scope?: RunScope): void {
    this.#wire.send(adoptFrame(runId, newKey(), root, graceMs, scope ?? null));
  }

  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): void {
    this.#wire.send(signalFrame(processes, signal));
  }

  members(requestId: string): void {
    this.#wire.send(encodeMessage("members", { requestId }));
  }

  status(): void {
    this.#wire.send(STATUS);
  }

  abandon(by: { readonly actor: string; readonly requestId: string }): void {
    this.#wire.send(abandonFrame(by));
  }

  close(): void {
    this.#saidAll = true;
    this.#wire.close();
  }

  message(message: Message): void {
    const event = toEvent(message, this.#attempt);
    if (event === null) return;
    if (event.type === "exited") this.#saidAll = true;
    this.#emit(event);
  }

  closed(error: Error | null): void {
    this.#run.linkClosed();
    // A peer that does not speak the protocol is worth a word; a lost connection is not: `closed` says it.
    if (error instanceof MalformedFrame) {
      this.#emit({ type: "refused", code: "bad-frame", message: error.message, epoch: null });
    }
    if (this.#saidAll) this.#emit({ type: "closed" });
    else void this.#closeWithLastWords();
  }

  /**
   * Writing to an anchor that has just left breaks the connection before its EXITED is read.
   * What it said is also in its file.
   */
  async #closeWithLastWords(): Promise<void> {
    const exit = await this.#run.exitFile().catch(() => null);
    if (exit !== null) this.#emit({ type: "exited", exit });
    this.#emit({ type: "closed" });
  }

  #emit(event: AnchorEvent): void {
    if (this.#listener === null) this.#waiting.push(event);
    else this.#listener(event);
  }
}
