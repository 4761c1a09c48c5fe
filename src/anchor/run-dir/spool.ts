import { constants, readSync } from "node:fs";
import { type FileHandle, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { SerialQueue } from "../../async/concurrency.js";
import { errnoCode } from "../../home/errno.js";
import { openOwnFile } from "../../home/own-file.js";
import { parseExit } from "./parse-run-files.js";
import type { OutputSlice, SpoolEnd, StreamName } from "./run-file-types.js";

/** A segment is named by the stream and the offset of its first byte. */
const OFFSET_DIGITS = 20;

export function segmentPath(directory: string, stream: string, start: number): string {
  return join(directory, `${stream}.${String(start).padStart(OFFSET_DIGITS, "0")}`);
}

/** Lists the start offsets of a stream's segments, ascending. Empty if there are none, or no such directory. */
async function listSegments(directory: string, stream: string): Promise<readonly number[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errnoCode(error) === "ENOENT") return [];
    throw error;
  });
  const prefix = `${stream}.`;
  return names
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .filter((digits) => digits.length === OFFSET_DIGITS && /^\d+$/.test(digits))
    .map(Number)
    .sort((a, b) => a - b);
}

const READ_NO_FOLLOW = constants.O_RDONLY | constants.O_NOFOLLOW;

interface Segment {
  readonly start: number;
  readonly file: FileHandle;
}

/** Size of the first read of a quiet stream; a full read is followed by larger ones. */
const SMALL_READ = 64 * 1024;
const LARGE_READ = 1024 * 1024;
/** One for a follower at the end, one for a reader from the start. */
const MAX_OPEN_SEGMENTS = 2;
/** An attempt fails only if a whole segment was filled and dropped meanwhile. */
const MAX_ATTEMPTS = 100;
const NO_BYTES = new Uint8Array(0);

interface NextSegment {
  readonly segment: Segment;
  /** True if the bytes before the segment that were not read are lost, not dropped by the anchor. */
  readonly afterLoss: boolean;
}

/**
 * Reads one stream's spool by offset. Reading consumes nothing, so any number of readers can be at any offset.
 *
 * A segment ends where the next one starts, only the newest grows, and only the oldest are removed. So a reader finds
 * the next segment by name. If there is none of that name, the directory is listed: no newer segment means the end of
 * the stream; a newer segment means that another program truncated this one or removed the one between. Then the bytes
 * up to the newer segment are lost.
 */
export class Spool implements AsyncDisposable {
  readonly #directory: string;
  readonly #stream: StreamName;
  /** The least recently used first. */
  #openSegments: Segment[] = [];
  #readSize = SMALL_READ;
  /** The end of the stream when it was last read. */
  #tail = -1;
  #disposed = false;
  #knownEnd: SpoolEnd | null = null;
  /** Serializes operations, so that no segment is closed during a read of it. */
  readonly #operations = new SerialQueue();

  constructor(directory: string, stream: StreamName) {
    this.#directory = directory;
    this.#stream = stream;
  }

  /** Reads up to `maxBytes`, into `into` if it is given. Empty only if there is nothing at or after `offset` now. */
  read(offset: number, maxBytes: number, into?: Uint8Array): Promise<OutputSlice> {
    return this.#operations.run(async () => {
      try {
        return await this.#read(offset, maxBytes, into);
      } finally {
        if (this.#disposed) await this.#closeAll();
      }
    });
  }

  /** A later read opens the segments it needs and closes them again. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    await this.#operations.run(() => this.#closeAll());
  }

  async #read(wanted: number, maxBytes: number, into?: Uint8Array): Promise<OutputSlice> {
    // Nothing is added after the end, so a reader that has everything need not search the directory.
    if (this.#knownEnd !== null && wanted >= this.#knownEnd.end) return { offset: wanted, bytes: NO_BYTES };
    const endWasKnown = this.#knownEnd !== null;
    let offset = wanted;
    let lost = 0;
    let segment = maxBytes > 0 ? await this.#findSegment(offset) : null;
    if (segment !== null && segment.start > offset) {
      // The anchor drops the oldest bytes. The exit file has the offset of the oldest byte it kept.
      const kept = (await this.#readEnd())?.start ?? segment.start;
      lost = Math.max(0, segment.start - Math.max(offset, kept));
    }
    for (let attempt = 0; segment !== null && attempt < MAX_ATTEMPTS; attempt += 1) {
      offset = Math.max(offset, segment.start);
      const bytes = await this.#readFrom(segment, offset, maxBytes, into);
      if (bytes.length > 0) return toSlice(offset, bytes, lost);
      const next = await this.#nextSegment(segment, offset);
      if (next?.afterLoss === true) lost += Math.max(0, next.segment.start - offset);
      segment = next?.segment ?? null;
    }
    const ending = maxBytes > 0 ? await this.#readEnd() : null;
    if (ending !== null && ending.end > offset) {
      // The anchor writes its last output before exit.json, so output that came after the check above is not lost.
      if (!endWasKnown) return this.#read(wanted, maxBytes, into);
      lost += ending.end - Math.max(offset, ending.start);
      offset = ending.end;
    }
    return lost > 0 ? toSlice(offset, NO_BYTES, lost) : { offset: wanted, bytes: NO_BYTES };
  }

  /**
   * Returns the range of the stream in exit.json, or null before the end. Only it shows that the last segment is too
   * short.
   */
  async #readEnd(): Promise<SpoolEnd | null> {
    this.#knownEnd ??= await readFile(join(this.#directory, "exit.json"), {
      encoding: "utf8",
      flag: READ_NO_FOLLOW,
    }).then(
      (text) => parseExit(text)?.[this.#stream] ?? null,
      () => null,
    );
    return this.#knownEnd;
  }

  async #findSegment(offset: number): Promise<Segment | null> {
    let nearest: Segment | null = null;
    for (const segment of this.#openSegments) {
      if (segment.start <= offset && segment.start >= (nearest?.start ?? 0)) nearest = segment;
    }
    if (nearest === null) return (await this.#openSegment(offset)) ?? (await this.#searchDirectory(offset));
    this.#openSegments = [...this.#openSegments.filter((segment) => segment !== nearest), nearest];
    return nearest;
  }

  /** Finds the segment to read next if `segment` has nothing at `offset`. Null if the stream has nothing there yet. */
  async #nextSegment(segment: Segment, offset: number): Promise<NextSegment | null> {
    const before = await segment.file.stat();
    if (segment.start + before.size > offset) return { segment, afterLoss: false };
    const exact =
      before.size > 0 && segment.start + before.size === offset ? await this.#openSegment(offset) : null;
    if (exact !== null) return { segment: exact, afterLoss: false };
    const starts = await listSegments(this.#directory, this.#stream);
    // Checked after the listing: a segment with a successor does not grow any more, and the anchor removes this segment
    // before the next one.
    const { size, nlink } = await segment.file.stat();
    // Also for a removed file: the bytes written before the removal are read first.
    if (segment.start + size > offset) return { segment, afterLoss: false };
    if (nlink === 0) return this.#onSegmentRemoved(segment, offset);
    const start =
      starts.findLast((each) => each > segment.start && each <= offset) ??
      starts.find((each) => each > offset);
    if (start === undefined) return null;
    const next = this.#openSegments.find((kept) => kept.start === start) ?? (await this.#openSegment(start));
    return next === null ? { segment, afterLoss: false } : { segment: next, afterLoss: true };
  }

  /** The file was removed, either by the anchor as the oldest or by another program. */
  async #onSegmentRemoved(segment: Segment, offset: number): Promise<NextSegment | null> {
    this.#openSegments = this.#openSegments.filter((kept) => kept !== segment);
    const found = await this.#searchDirectory(offset);
    if (found === null) {
      // The whole directory was removed: the bytes can only be read through this handle.
      this.#openSegments.unshift(segment);
      return null;
    }
    await segment.file.close();
    return { segment: found, afterLoss: false };
  }

  /** Lists the directory and opens the last segment that starts at or before `offset`, or else the oldest. */
  async #searchDirectory(offset: number): Promise<Segment | null> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const starts = await listSegments(this.#directory, this.#stream);
      // The oldest may be removed while it is being opened, so each further attempt starts at a newer one.
      const start =
        starts.findLast((candidate) => candidate <= offset) ?? starts[Math.min(attempt, starts.length - 1)];
      if (start === undefined) return null;
      const segment =
        this.#openSegments.find((kept) => kept.start === start) ?? (await this.#openSegment(start));
      if (segment !== null) return segment;
    }
    throw new Error(`the segments of ${this.#stream} in ${this.#directory} are listed but cannot be opened`);
  }

  async #readFrom(
    segment: Segment,
    offset: number,
    maxBytes: number,
    into?: Uint8Array,
  ): Promise<Uint8Array> {
    if (into !== undefined) {
      const most = Math.min(maxBytes, into.length);
      const { bytesRead } = await segment.file.read(into, 0, most, offset - segment.start);
      return into.subarray(0, bytesRead);
    }
    const room = Buffer.allocUnsafe(Math.min(maxBytes, this.#readSize));
    const at = offset - segment.start;
    // New output is still in memory, and a thread takes longer to wake than to read it.
    const isNew = offset === this.#tail && room.length <= SMALL_READ;
    const bytesRead = isNew
      ? readSync(segment.file.fd, room, 0, room.length, at)
      : (await segment.file.read(room, 0, room.length, at)).bytesRead;
    if (bytesRead < room.length) this.#tail = offset + bytesRead;
    if (bytesRead === this.#readSize) this.#readSize = LARGE_READ;
    else if (bytesRead < SMALL_READ) this.#readSize = SMALL_READ;
    // A few bytes must not keep a large buffer alive.
    return bytesRead < room.length / 2
      ? Buffer.from(room.subarray(0, bytesRead))
      : room.subarray(0, bytesRead);
  }

  /** Null if there is no such segment. */
  async #openSegment(start: number): Promise<Segment | null> {
    let file: FileHandle;
    try {
      file = await openOwnFile(segmentPath(this.#directory, this.#stream, start));
    } catch (error) {
      if (errnoCode(error) === "ENOENT") return null;
      throw error;
    }
    const segment = { start, file };
    this.#openSegments.push(segment);
    if (this.#openSegments.length > MAX_OPEN_SEGMENTS) await this.#openSegments.shift()?.file.close();
    return segment;
  }

  async #closeAll(): Promise<void> {
    const kept = this.#openSegments;
    this.#openSegments = [];
    await Promise.all(kept.map(({ file }) => file.close()));
  }
}

function toSlice(offset: number, bytes: Uint8Array, lost: number): OutputSlice {
  return lost === 0 ? { offset, bytes } : { offset, bytes, lost };
}
