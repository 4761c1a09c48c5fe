import type { AnchorLink } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { BadInput, StdinClosed } from "../../errors.js";
import { deferred, type Deferred } from "../../async/deferred.js";

export type StdinLink = Pick<AnchorLink, "write" | "closeStdin">;

/** How much input the anchor has, and takes: nothing is sent beyond `limit`. */
interface StdinCredit {
  readonly accepted: number;
  readonly limit: number;
  /** No process reads the input any more. */
  readonly closed: boolean;
}

interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly bytes: Uint8Array;
}

/**
 * A run's input, addressed by offset. Bytes are kept until the anchor has accepted them, so that a new connection sends
 * the rest again. The anchor ignores bytes that it already has, so none is lost or doubled.
 */
export class Stdin {
  readonly #runId: string;
  #link: StdinLink | null = null;
  /** Not yet accepted, oldest first, without gaps. Chunks before `#next` were sent on this connection. */
  #chunks: Chunk[] = [];
  #next = 0;
  #written: number;
  #sent: number;
  #accepted: number;
  #limit = 0;
  #waiting: { readonly end: number; readonly done: Deferred<void> }[] = [];
  #closing: Deferred<void> | null = null;
  #closeSent = false;
  #ended: string | null = null;

  constructor(runId: string, startAt = 0) {
    this.#runId = runId;
    this.#written = startAt;
    this.#sent = startAt;
    this.#accepted = startAt;
  }

  /** The anchor has every byte before this offset. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Written bytes that the anchor has not accepted. */
  get pendingBytes(): number {
    return this.#ended === null ? this.#written - this.#accepted : 0;
  }

  /**
   * Resolves when the anchor has every byte. With `at`, bytes before the current end are skipped, and a gap is
   * refused.
   */
  write(data: Uint8Array | string, at = this.#written): Promise<void> {
    if (this.#ended !== null) return Promise.reject(new StdinClosed(this.#runId, this.#ended));
    const all = typeof data === "string" ? Buffer.from(data) : data;
    if (at > this.#written)
      return Promise.reject(
        new BadInput(
          "offset",
          `input at offset ${at} was refused: the bytes from ${this.#written} on are missing`,
        ),
      );
    const end = at + all.length;
    if (this.#closing !== null && (end > this.#written || all.length === 0))
      return Promise.reject(new StdinClosed(this.#runId, "its stdin was closed before"));
    if (end <= this.#accepted || all.length === 0) return Promise.resolve();
    if (end > this.#written) {
      this.#chunks.push({ start: this.#written, end, bytes: all.subarray(this.#written - at) });
      this.#written = end;
    }
    const done = deferred<void>();
    this.#waiting.push({ end, done });
    this.#send();
    return done.promise;
  }

  /** Resolves when all written bytes were accepted and the end of input was sent. */
  close(): Promise<void> {
    if (this.#ended !== null) return Promise.resolve();
    this.#closing ??= deferred<void>();
    this.#send();
    return this.#closing.promise;
  }

  /** Uses a new connection: bytes that were not accepted are sent again. */
  attach(link: StdinLink, credit: StdinCredit): void {
    this.#link = link;
    this.#sent = Math.max(credit.accepted, this.#accepted);
    this.#next = 0;
    this.#closeSent = false;
    this.credit(credit);
  }

  detach(): void {
    this.#link = null;
  }

  credit({ accepted, limit, closed }: StdinCredit): void {
    // A caller that is connected to the anchor has written the bytes beyond ours.
    if (accepted > this.#written && this.#chunks.length === 0) this.#written = this.#sent = accepted;
    this.#accepted = Math.max(this.#accepted, Math.min(accepted, this.#written));
    this.#limit = limit;
    this.#dropAccepted();
    if (closed) return this.end("no process reads its stdin any more");
    this.#send();
  }

  /** Takes no more input. Rejects the writes that were not accepted. */
  end(why: string): void {
    if (this.#ended !== null) return;
    this.#ended = why;
    this.#link = null;
    this.#chunks = [];
    for (const { done } of this.#waiting) done.reject(new StdinClosed(this.#runId, why));
    this.#waiting = [];
    this.#closing?.resolve();
  }

  #dropAccepted(): void {
    let count = 0;
    while (count < this.#chunks.length && this.#chunks[count]!.end <= this.#accepted) count++;
    this.#chunks.splice(0, count);
    this.#next = Math.max(0, this.#next - count);
    const accepted = this.#waiting.filter(({ end }) => end <= this.#accepted);
    if (accepted.length > 0) this.#waiting = this.#waiting.filter(({ end }) => end > this.#accepted);
    for (const { done } of accepted) done.resolve();
  }

  #send(): void {
    const link = this.#link;
    if (link === null) return;
    for (let chunk = this.#chunks[this.#next]; chunk !== undefined; chunk = this.#chunks[this.#next]) {
      while (this.#sent < chunk.end && this.#sent < this.#limit) {
        const from = this.#sent - chunk.start;
        const length = Math.min(chunk.end - this.#sent, this.#limit - this.#sent, defaults.stdinFrameBytes);
        const at = this.#sent;
        this.#sent += length;
        link.write(at, chunk.bytes.subarray(from, from + length));
      }
      if (this.#sent < chunk.end) return;
      this.#next++;
    }
    if (this.#closing === null) return;
    if (!this.#closeSent) {
      this.#closeSent = true;
      link.closeStdin(this.#written);
    }
    if (this.#accepted >= this.#written) this.#closing.resolve();
  }
}
