import type { AnchorLink } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { BadInput, StdinClosed } from "../../errors.js";
import { deferred, type Deferred } from "../../async/deferred.js";

export type StdinLink = Pick<AnchorLink, "write" | "closeStdin">;

/** What the anchor says of a run's input. It never has more than `limit` bytes sent to it. */
export interface StdinCredit {
  readonly accepted: number;
  readonly limit: number;
  /** Nobody reads it any more. */
  readonly closed: boolean;
}

interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly bytes: Uint8Array;
}

/**
 * A run's input by offsets. Bytes are kept until the anchor's accepted offset has passed them, so that a new connection
 * resumes exactly there: nothing is lost, and the anchor ignores what it already has, so nothing is doubled.
 */
export class Stdin {
  readonly #runId: string;
  #link: StdinLink | null = null;
  /** Not yet accepted, oldest first, without gaps; those before `#next` have been sent on this connection. */
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

  /** Up to here, the anchor holds every byte. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Bytes that are kept here for the anchor to take. */
  get pendingBytes(): number {
    return this.#ended === null ? this.#written - this.#accepted : 0;
  }

  /**
   * Resolves when the anchor holds every byte. A writer that counts says where its bytes begin: what is here already is
   * not taken twice, and a gap is refused.
   */
  write(data: Uint8Array | string, at = this.#written): Promise<void> {
    if (this.#ended !== null) return Promise.reject(new StdinClosed(this.#runId, this.#ended));
    const all = typeof data === "string" ? Buffer.from(data) : data;
    if (at > this.#written)
      return Promise.reject(
        new BadInput("offset", `input at ${at} was refused: only what goes before ${this.#written} is here`),
      );
    const end = at + all.length;
    if (this.#closing !== null && (end > this.#written || all.length === 0))
      return Promise.reject(new StdinClosed(this.#runId, "its stdin was closed here before"));
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

  /** Resolves when everything written has been accepted and the end has been sent after it. */
  close(): Promise<void> {
    if (this.#ended !== null) return Promise.resolve();
    this.#closing ??= deferred<void>();
    this.#send();
    return this.#closing.promise;
  }

  /** A new connection: what it has not accepted is sent again. */
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
    this.#accepted = Math.max(this.#accepted, Math.min(accepted, this.#written));
    this.#limit = limit;
    this.#dropAccepted();
    if (closed) return this.end("nothing reads its stdin any more");
    this.#send();
  }

  /** Nothing will be taken any more. What was not accepted is refused to its writer. */
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
    let gone = 0;
    while (gone < this.#chunks.length && this.#chunks[gone]!.end <= this.#accepted) gone++;
    this.#chunks.splice(0, gone);
    this.#next = Math.max(0, this.#next - gone);
    const held = this.#waiting.filter(({ end }) => end <= this.#accepted);
    if (held.length > 0) this.#waiting = this.#waiting.filter(({ end }) => end > this.#accepted);
    for (const { done } of held) done.resolve();
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
