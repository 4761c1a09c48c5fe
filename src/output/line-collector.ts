import { defaults } from "../defaults.js";
import { sanitizeText } from "../text/sanitize.js";
import { incompleteTailBytes, MAX_CONTINUATION_BYTES } from "../text/utf8.js";

interface BuiltLine {
  readonly bytes: Uint8Array;
  /** Bytes beyond the limit that are not in `bytes`. */
  readonly cut: number;
}

interface PartialLine {
  readonly parts: Uint8Array[];
  held: number;
  seen: number;
}

const CARRIAGE_RETURN = 0x0d;

/**
 * Builds one line of any length from parts: keeps its start up to a limit and counts the rest. If `collapse` is set, a
 * carriage return restarts the line, so that only the last state of a progress bar remains.
 */
export class LineBuilder {
  readonly #maxBytes: number;
  readonly #collapse: boolean;
  #current: PartialLine = emptyLine();
  /** The last state that was not empty, because a progress bar may end in a carriage return. */
  #previous: PartialLine = emptyLine();

  constructor(maxBytes: number, collapse: boolean) {
    this.#maxBytes = maxBytes;
    this.#collapse = collapse;
  }

  /** `part` has no line feed. It is copied, because a view would keep the whole chunk alive. */
  push(part: Uint8Array): void {
    let start = 0;
    for (
      let end = this.#collapse ? part.indexOf(CARRIAGE_RETURN) : -1;
      end >= 0;
      end = part.indexOf(CARRIAGE_RETURN, start)
    ) {
      this.#append(part.subarray(start, end));
      if (this.#current.seen > 0) this.#previous = this.#current;
      this.#current = emptyLine();
      start = end + 1;
    }
    this.#append(part.subarray(start));
  }

  /**
   * Returns the line pushed since the last call, without its last `without` bytes. A carriage return at the end belongs
   * to the line end.
   */
  take(without = 0): BuiltLine {
    const current = { ...this.#current, seen: this.#current.seen - without };
    const { parts, seen } = current.seen > 0 ? current : this.#previous;
    this.#current = emptyLine();
    this.#previous = emptyLine();
    const whole = Buffer.concat(parts).subarray(0, seen);
    if (seen > whole.length) {
      const bytes = whole.subarray(0, whole.length - incompleteTailBytes(whole));
      return { bytes, cut: seen - bytes.length };
    }
    return { bytes: whole.at(-1) === CARRIAGE_RETURN ? whole.subarray(0, -1) : whole, cut: 0 };
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const room = Math.min(bytes.length, this.#maxBytes - this.#current.held);
    if (room > 0) this.#current.parts.push(Uint8Array.from(bytes.subarray(0, room)));
    this.#current.held += Math.max(0, room);
    this.#current.seen += bytes.length;
  }
}

function emptyLine(): PartialLine {
  return { parts: [], held: 0, seen: 0 };
}

interface CollectorOptions {
  /** Which lines are kept if there are more than fit. */
  readonly keep: "oldest" | "newest";
  /** Number of lines to skip first. */
  readonly skip: number;
  readonly lines: number;
  readonly collapse?: boolean;
  readonly raw?: boolean;
  readonly maxLineBytes?: number;
  readonly maxPageBytes?: number;
}

interface CollectedLines {
  readonly lines: readonly string[];
  readonly firstOffset: number;
  readonly nextOffset: number;
  readonly unfinishedFrom: number | null;
  readonly cut: boolean;
}

interface CollectedLine {
  readonly offset: number;
  readonly text: string;
  readonly size: number;
}

const LINE_FEED = 0x0a;

/** Splits bytes that arrive in order into lines, and holds at most one page of them. */
export class LineCollector {
  readonly #options: CollectorOptions;
  readonly #maxLines: number;
  readonly #maxBytes: number;
  readonly #builder: LineBuilder;
  readonly #lines: CollectedLine[] = [];
  #linesToSkip: number;
  #heldBytes = 0;
  #cut = false;
  /** Offsets of the current line and of the next byte. */
  #lineStart: number;
  #position: number;
  /** The newest bytes, which may end inside a character. */
  #tail: Uint8Array = new Uint8Array(0);

  constructor(offset: number, options: CollectorOptions) {
    this.#options = options;
    this.#maxLines = Math.min(options.lines, defaults.logPageLines);
    this.#maxBytes = options.maxPageBytes ?? defaults.logPageBytes;
    this.#builder = new LineBuilder(options.maxLineBytes ?? defaults.logLineBytes, options.collapse ?? false);
    this.#linesToSkip = options.skip;
    this.#lineStart = offset;
    this.#position = offset;
  }

  get count(): number {
    return this.#lines.length;
  }

  get keep(): "oldest" | "newest" {
    return this.#options.keep;
  }

  /** True if further bytes would change nothing. */
  get full(): boolean {
    if (this.#maxLines === 0) return true;
    return (
      this.#options.keep === "oldest" && (this.count >= this.#maxLines || this.#heldBytes >= this.#maxBytes)
    );
  }

  /** True if the page limit, not the requested number of lines, was reached. */
  get limitedByPage(): boolean {
    return this.full && this.count < this.#options.lines;
  }

  /** Restarts after lost bytes. */
  restartAt(offset: number): void {
    this.#builder.take();
    this.#lines.length = 0;
    this.#heldBytes = 0;
    this.#tail = new Uint8Array(0);
    this.#lineStart = offset;
    this.#position = offset;
  }

  push(bytes: Uint8Array): void {
    const base = this.#position;
    let start = 0;
    while (start < bytes.length && !this.full) {
      const lineFeed = bytes.indexOf(LINE_FEED, start);
      const end = lineFeed < 0 ? bytes.length : lineFeed;
      if (this.#linesToSkip === 0) this.#builder.push(bytes.subarray(start, end));
      start = lineFeed < 0 ? end : end + 1;
      this.#position = base + start;
      if (lineFeed >= 0) this.#endLine();
    }
    const newest = bytes.subarray(Math.max(0, start - MAX_CONTINUATION_BYTES), start);
    this.#tail = Buffer.concat([this.#tail, newest]).subarray(-MAX_CONTINUATION_BYTES);
  }

  /**
   * Ends the page with the current line. Unless the stream has ended, leaves out a last character that may still be
   * completed.
   */
  finish(ended: boolean): CollectedLines {
    const without = ended ? 0 : incompleteTailBytes(this.#tail);
    const nextOffset = this.#position - without;
    const isUnfinished = !this.full && this.#linesToSkip === 0 && nextOffset > this.#lineStart;
    const unfinishedFrom = isUnfinished ? this.#lineStart : null;
    if (isUnfinished) this.#addLine(without);
    return {
      lines: this.#lines.map(({ text }) => text),
      firstOffset: this.#lines[0]?.offset ?? nextOffset,
      nextOffset,
      unfinishedFrom,
      cut: this.#cut,
    };
  }

  #endLine(): void {
    if (this.#linesToSkip > 0) this.#linesToSkip -= 1;
    else this.#addLine(0);
    this.#lineStart = this.#position;
  }

  #addLine(without: number): void {
    const { bytes, cut } = this.#builder.take(without);
    const text = Buffer.from(bytes).toString("utf8");
    const shown = this.#options.raw === true ? text : sanitizeText(text);
    if (cut > 0) this.#cut = true;
    this.#lines.push({
      offset: this.#lineStart,
      text: cut > 0 ? `${shown}… [${cut} bytes cut]` : shown,
      size: bytes.length + 1,
    });
    this.#heldBytes += bytes.length + 1;
    if (this.#options.keep === "oldest") return;
    while (
      this.#lines.length > 1 &&
      (this.#heldBytes > this.#maxBytes || this.#lines.length > this.#maxLines)
    ) {
      this.#heldBytes -= this.#lines.shift()?.size ?? 0;
      this.#cut = true;
    }
  }
}
