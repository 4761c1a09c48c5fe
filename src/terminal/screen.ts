import type { TerminalSize } from "../anchor/host-interface.js";
import { SerialQueue } from "../async/concurrency.js";
import { defaults } from "../defaults.js";
import { sanitizeLine } from "../text/sanitize.js";
import { Utf8Decoder } from "../text/utf8.js";
import { ControlStringLimiter, createHeadlessTerminal, type HeadlessTerminal } from "./headless-terminal.js";
import type { TerminalModes } from "./encode-keys.js";

/** The content of a terminal. All text in it is safe to show. */
export interface ScreenSnapshot {
  /** The rows from the top, without trailing blanks. */
  readonly rows: readonly string[];
  readonly cols: number;
  readonly cursor: { readonly x: number; readonly y: number; readonly visible: boolean };
  readonly title: string;
  /** True if the program uses the alternate screen (an editor, a pager). */
  readonly alternate: boolean;
  readonly modes: TerminalModes;
  /** Bytes fed so far. */
  readonly bytes: number;
}

/** Characters drawn between two checks of the clock: even the most expensive sequences take little time. */
const DRAW_SLICE_CHARS = 1024;
/** Bytes drawn between two checks of the abort signal. */
const ABORT_CHECK_BYTES = 16 * 1024;

/**
 * The terminal of a run, drawn from the run's output. It sends nothing to the program: answers to terminal queries are
 * kept for `takeReplies`.
 *
 * Calls take effect in order. `snapshot` includes all calls that were awaited.
 */
export class Screen implements AsyncDisposable {
  readonly #headless: HeadlessTerminal;
  readonly #decoder = new Utf8Decoder();
  readonly #controlStrings = new ControlStringLimiter();
  #bytes = 0;
  #pendingBytes = 0;
  #title = "";
  #cursorVisible = true;
  #replies = "";
  #disposed = false;
  readonly #operations = new SerialQueue();

  constructor(size: TerminalSize = { rows: defaults.rows, cols: defaults.cols }) {
    const { rows, cols } = clampSize(size);
    this.#headless = createHeadlessTerminal(rows, cols);
    const { terminal } = this.#headless;
    terminal.onTitleChange((title) => {
      this.#title = title;
    });
    terminal.onData((reply) => {
      if (this.#replies.length + reply.length <= defaults.screenRepliesBytes) this.#replies += reply;
    });
    this.#watchCursor();
  }

  /** Bytes drawn so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Draws output, which may be split anywhere. Await the promise before the next chunk (back-pressure); the bytes must
   * not change until then. An abort leaves out the rest.
   */
  async feed(bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    if (this.#pendingBytes > defaults.screenPendingBytes)
      throw new Error(
        `${this.#pendingBytes} bytes already wait to be drawn: await feed() before the next chunk`,
      );
    this.#pendingBytes += bytes.length;
    try {
      await this.#runExclusive(async () => {
        for (let start = 0; start < bytes.length; start += ABORT_CHECK_BYTES) {
          signal?.throwIfAborted();
          const block = bytes.subarray(start, start + ABORT_CHECK_BYTES);
          await this.#draw(this.#decoder.push(block));
          this.#bytes += block.length;
        }
      });
    } finally {
      this.#pendingBytes -= bytes.length;
    }
  }

  /** Marks a gap in the output: an unfinished sequence or character is dropped. Modes and cells stay. */
  skipLostOutput(): Promise<void> {
    return this.#runExclusive(() => {
      this.#decoder.end();
      return this.#draw(CANCEL_SEQUENCE);
    });
  }

  resize(size: TerminalSize): Promise<void> {
    const { rows, cols } = clampSize(size);
    return this.#runExclusive(() => {
      this.#headless.terminal.resize(cols, rows);
    });
  }

  snapshot(): ScreenSnapshot {
    const { terminal } = this.#headless;
    const { active } = terminal.buffer;
    const { modes } = terminal;
    const line = (y: number): string => active.getLine(active.baseY + y)?.translateToString(true) ?? "";
    return {
      rows: Array.from({ length: terminal.rows }, (_, y) => sanitizeLine(line(y)).trimEnd()),
      cols: terminal.cols,
      cursor: {
        // After a write to the last column, the cursor is beyond it, and terminals show it on the last column.
        x: Math.min(active.cursorX, terminal.cols - 1),
        y: active.cursorY,
        visible: this.#cursorVisible,
      },
      title: sanitizeLine(this.#title),
      alternate: active.type === "alternate",
      modes: {
        applicationCursor: modes.applicationCursorKeysMode,
        applicationKeypad: modes.applicationKeypadMode,
        bracketedPaste: modes.bracketedPasteMode,
        focusEvents: modes.sendFocusMode,
        mouse: modes.mouseTrackingMode !== "none",
      },
      bytes: this.#bytes,
    };
  }

  /**
   * Returns the output that makes a cleared terminal of this size look the same, with the same modes and scrollback.
   */
  serialize(): string {
    return this.#headless.serializer.serialize() + (this.#cursorVisible ? "" : "\u001b[?25l");
  }

  /**
   * Returns what a terminal would have answered to the program's queries since the last call. It belongs to the
   * program's stdin, unless an attached terminal answers too.
   */
  takeReplies(): Uint8Array {
    const replies = this.#replies;
    this.#replies = "";
    return Buffer.from(replies, "utf8");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposed) return;
    // Queued behind pending draws, because a disposed terminal never reports that it has drawn.
    const disposed = this.#runExclusive(() => this.#headless.terminal.dispose());
    this.#disposed = true;
    await disposed;
  }

  #draw(output: string): Promise<void> {
    const { terminal } = this.#headless;
    const text = this.#controlStrings.push(output);
    return new Promise((resolve) => {
      // xterm.js yields between slices after it has drawn for a while.
      for (let start = 0; start < text.length; start += DRAW_SLICE_CHARS)
        terminal.write(text.slice(start, start + DRAW_SLICE_CHARS));
      terminal.write("", resolve);
    });
  }

  async #runExclusive<T>(operation: () => T | Promise<T>): Promise<T> {
    if (this.#disposed) throw new Error("the screen was disposed");
    return this.#operations.run(operation);
  }

  /** Tracks DECTCEM (cursor visibility), which xterm.js applies but does not expose. */
  #watchCursor(): void {
    const { parser } = this.#headless.terminal;
    const setVisible = (visible: boolean) => (): false => {
      this.#cursorVisible = visible;
      return false;
    };
    for (const [final, visible] of [
      ["h", true],
      ["l", false],
    ] as const)
      parser.registerCsiHandler({ prefix: "?", final }, (modes) =>
        modes.includes(DECTCEM) ? setVisible(visible)() : false,
      );
    parser.registerCsiHandler({ intermediates: "!", final: "p" }, setVisible(true));
    parser.registerEscHandler({ final: "c" }, setVisible(true));
  }
}

const DECTCEM = 25;
/** CAN aborts any unfinished sequence. */
const CANCEL_SEQUENCE = "\u0018";
/** A wide character needs two columns. */
const MIN_COLS = 2;

function clampSize({ rows, cols }: TerminalSize): TerminalSize {
  const between = (least: number, value: number, most: number): number =>
    Math.min(Math.max(least, Math.trunc(value) || least), most);
  return {
    rows: between(1, rows, defaults.screenMaxRows),
    cols: between(MIN_COLS, cols, defaults.screenMaxCols),
  };
}
