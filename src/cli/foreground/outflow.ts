import { StdinClosed } from "../../errors.js";
import { deferred, type Deferred } from "../../supervisor/deferred.js";

/** How input gets to the run on one connection. */
export interface InputChannel {
  send(offset: number, bytes: Uint8Array): void;
  end(): void;
}

interface Piece {
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly done: Deferred<void>;
}

/** A run's input by offsets: kept until its anchor holds it, and sent again on the next connection. */
export class Outflow {
  readonly #runId: string;
  #channel: InputChannel | null = null;
  #pieces: Piece[] = [];
  #written = 0;
  #ended = false;
  #refused: string | null = null;

  constructor(runId: string) {
    this.#runId = runId;
  }

  /** Resolves when the anchor holds every byte. */
  write(bytes: Uint8Array): Promise<void> {
    if (this.#refused !== null) return Promise.reject(new StdinClosed(this.#runId, this.#refused));
    const piece = { at: this.#written, bytes, done: deferred<void>() };
    this.#written += bytes.length;
    this.#pieces.push(piece);
    this.#channel?.send(piece.at, bytes);
    return piece.done.promise;
  }

  /** Of input that nobody takes any more, the end is not said either: others may be typing. */
  end(): void {
    this.#ended = true;
    if (this.#refused === null) this.#channel?.end();
  }

  /** A new connection, whose other end holds this much. */
  attach(channel: InputChannel, accepted: number): void {
    this.#channel = channel;
    if (accepted > this.#written) this.refuse("others have typed into it meanwhile");
    if (this.#refused !== null) return;
    this.accepted(accepted);
    for (const { at, bytes } of this.#pieces) channel.send(at, bytes);
    if (this.#ended) channel.end();
  }

  detach(): void {
    this.#channel = null;
  }

  accepted(offset: number): void {
    const held = this.#pieces.filter(({ at, bytes }) => at + bytes.length <= offset);
    this.#pieces = this.#pieces.slice(held.length);
    for (const { done } of held) done.resolve();
  }

  /** Nobody takes it any more. */
  refuse(why: string): void {
    this.#refused ??= why;
    const pieces = this.#pieces;
    this.#pieces = [];
    for (const { done } of pieces) done.reject(new StdinClosed(this.#runId, this.#refused));
  }
}
