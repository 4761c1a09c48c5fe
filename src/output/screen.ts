import type { TerminalSize } from "../anchor/host.js";
import { SerialQueue } from "../async/serial-queue.js";
import { defaults } from "../defaults.js";
import { sanitizeLine } from "../text/sanitize.js";
import { Utf8Decoder } from "../text/utf8.js";
import { ControlStringLimiter } from "./control-string-limiter.js";
import { createHeadlessTerminal, type HeadlessTerminal } from "./headless-terminal.js";
import type { TerminalModes } from "./terminal-input.js";

/** What a terminal shows. All text in it is safe to show anywhere. */
export interface ScreenSnapshot {
  /** One per row of the screen, from the top, without the blanks at its end. */
  readonly rows: readonly string[];
  readonly cols: number;
  readonly cursor: { readonly x: number; readonly y: number; readonly visible: boolean };
  readonly title: string;
  /** The program has a screen of its own (an editor, a pager), not the one that scrolls. */
  readonly alternate: boolean;
  readonly modes: TerminalModes;
  /** Bytes fed so far. */
  readonly bytes: number;
}

/** Output drawn between two looks at the clock: what the costliest sequences can make of it is still short. */
const DRAW_SLICE_CHARS = 1024;
/** Output drawn before looking whether it is still wanted. */
const ABORT_CHECK_BYTES = 16 * 1024;

/**
 * The terminal of a run, kept by feeding it the run's output. It only looks: answers to the program's questions
 * are not sent anywhere, but kept for `takeReplies`.
 *
 * Calls take effect in the order they were made. What `snapshot` shows includes what has been awaited.
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

  /** Bytes given to `feed` and drawn. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Draws output, cut anywhere. The promise is the back-pressure: wait for it before the next chunk. The bytes
   * must not change until then. An abort leaves the rest of them out.
   */
  async feed(bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    if (this.#pendingBytes > defaults.screenPendingBytes)
      throw new Error(
        `${this.#pendingBytes} bytes wait to be drawn already: await feed() before the next chunk`,
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

  /** Output was lost here: what it was the middle of will not be continued. Modes and cells stay. */
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
        // After the last column is written the cursor is beyond it, and is shown on it.
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

  /** What a terminal of this size, cleared, must be sent to look the same and be in the same modes, with what had scrolled away. */
  serialize(): string {
    return this.#headless.serializer.serialize() + (this.#cursorVisible ? "" : "\u001b[?25l");
  }

  /**
   * What a terminal would have answered to the program's questions since this was last called. For the program's
   * stdin, and only when no terminal is attached that answers, too.
   */
  takeReplies(): Uint8Array {
    const replies = this.#replies;
    this.#replies = "";
    return Buffer.from(replies, "utf8");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposed) return;
    // In turn: a terminal that is disposed never says that it has drawn what it was given.
    const disposed = this.#runExclusive(() => this.#headless.terminal.dispose());
    this.#disposed = true;
    await disposed;
  }

  #draw(output: string): Promise<void> {
    const { terminal } = this.#headless;
    const text = this.#controlStrings.push(output);
    return new Promise((resolve) => {
      // It lets others run between slices when it has drawn for a while.
      for (let start = 0; start < text.length; start += DRAW_SLICE_CHARS)
        terminal.write(text.slice(start, start + DRAW_SLICE_CHARS));
      terminal.write("", resolve);
    });
  }

  async #runExclusive<T>(operation: () => T | Promise<T>): Promise<T> {
    if (this.#disposed) throw new Error("the screen has been disposed of");
    return this.#operations.run(operation);
  }

  /** DECTCEM, which the terminal obeys but does not tell. */
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
/** CAN ends any sequence, unfinished. */
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
