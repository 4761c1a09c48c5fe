import { type FileHandle, open } from "node:fs/promises";
import { errorCode } from "./error-code.js";
import type { OutputSlice } from "./host.js";
import { listSegments, segmentPath } from "./segment.js";

interface Segment {
  readonly start: number;
  readonly file: FileHandle;
}

/** The first read of a quiet stream; one that fills it is followed by larger ones. */
const SMALL_READ = 64 * 1024;
const LARGE_READ = 1024 * 1024;
/** One for who follows the end, one for who catches up from the beginning. */
const KEPT_OPEN = 2;
/** Each look fails only because a whole segment was filled and dropped meanwhile. */
const MAX_LOOKS = 100;

/**
 * One stream's spool, read by offset. Consumes nothing: any number of readers at any offsets.
 *
 * A segment ends where the next begins, only the newest grows, and only the oldest are removed. So a
 * reader that has a segment open finds the next by name, and knows that it is at the end of the stream
 * when there is no next and its own has not been removed. The directory is listed only to begin, to
 * jump, and when the writer has overtaken the reader.
 */
export class Spool implements AsyncDisposable {
  readonly #directory: string;
  readonly #stream: string;
  /** The least recently used first. */
  #open: Segment[] = [];
  #appetite = SMALL_READ;
  #disposed = false;
  /** One operation at a time: a segment is never closed under a read of it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(directory: string, stream: string) {
    this.#directory = directory;
    this.#stream = stream;
  }

  /** Up to `maxBytes`, or fewer: empty only when there is nothing at or after `offset` now. */
  read(offset: number, maxBytes: number): Promise<OutputSlice> {
    return this.#inTurn(async () => {
      try {
        return await this.#read(offset, maxBytes);
      } finally {
        if (this.#disposed) await this.#closeAll();
      }
    });
  }

  /** A read that is still to come opens what it needs and closes it again. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    await this.#inTurn(() => this.#closeAll());
  }

  #inTurn<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(operation);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #read(wanted: number, maxBytes: number): Promise<OutputSlice> {
    let offset = wanted;
    let segment = maxBytes > 0 ? await this.#find(offset) : null;
    while (segment !== null) {
      offset = Math.max(offset, segment.start);
      const bytes = await this.#readFrom(segment, offset, maxBytes);
      if (bytes.length > 0) return { offset, bytes };
      segment = await this.#after(segment, offset);
    }
    return { offset: wanted, bytes: new Uint8Array(0) };
  }

  async #find(offset: number): Promise<Segment | null> {
    let nearest: Segment | null = null;
    for (const segment of this.#open) {
      if (segment.start <= offset && segment.start >= (nearest?.start ?? 0)) nearest = segment;
    }
    if (nearest === null) return (await this.#enter(offset)) ?? (await this.#search(offset));
    this.#open = [...this.#open.filter((segment) => segment !== nearest), nearest];
    return nearest;
  }

  /** Where to go on when `segment` has nothing at `offset`. Null: the stream has nothing there yet. */
  async #after(segment: Segment, offset: number): Promise<Segment | null> {
    const { size } = await segment.file.stat();
    const end = segment.start + size;
    if (end > offset) return segment;
    if (end < offset) {
      const found = await this.#search(offset);
      return found === null || found.start === segment.start ? null : found;
    }
    const next = size > 0 ? await this.#enter(end) : null;
    if (next !== null) return next;
    // Asked after looking for the next one: if that was removed already, so was this, before it.
    const { nlink } = await segment.file.stat();
    return nlink > 0 ? null : this.#search(offset);
  }

  /** By listing: the last segment that begins at or before `offset`, else the oldest there is. */
  async #search(offset: number): Promise<Segment | null> {
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const starts = await listSegments(this.#directory, this.#stream);
      // The oldest may be removed while it is being opened: each further look begins at a newer one.
      const start =
        starts.findLast((candidate) => candidate <= offset) ?? starts[Math.min(look, starts.length - 1)];
      if (start === undefined) return null;
      const segment = this.#open.find((kept) => kept.start === start) ?? (await this.#enter(start));
      if (segment !== null) return segment;
    }
    throw new Error(`the segments of ${this.#stream} in ${this.#directory} are listed but cannot be opened`);
  }

  async #readFrom(segment: Segment, offset: number, maxBytes: number): Promise<Uint8Array> {
    const room = Buffer.allocUnsafe(Math.min(maxBytes, this.#appetite));
    const { bytesRead } = await segment.file.read(room, 0, room.length, offset - segment.start);
    if (bytesRead === this.#appetite) this.#appetite = LARGE_READ;
    else if (bytesRead < SMALL_READ) this.#appetite = SMALL_READ;
    // A few bytes must not keep a whole buffer alive.
    return bytesRead < room.length / 2
      ? Buffer.from(room.subarray(0, bytesRead))
      : room.subarray(0, bytesRead);
  }

  /** Null when there is no such segment. */
  async #enter(start: number): Promise<Segment | null> {
    let file: FileHandle;
    try {
      file = await open(segmentPath(this.#directory, this.#stream, start), "r");
    } catch (error) {
      if (errorCode(error) === "ENOENT") return null;
      throw error;
    }
    const segment = { start, file };
    this.#open.push(segment);
    if (this.#open.length > KEPT_OPEN) await this.#open.shift()?.file.close();
    return segment;
  }

  async #closeAll(): Promise<void> {
    const kept = this.#open;
    this.#open = [];
    await Promise.all(kept.map(({ file }) => file.close()));
  }
}
