import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Terminal } from "@xterm/xterm";
import { ignoreQueries } from "./ignore-queries.js";
import { stylesWithoutInline } from "./styles-without-inline.js";
import type { TerminalSize } from "./terminal-stream.js";

const SCROLLBACK_LINES = 20_000;
const FONT_PX = 13;
const SMALLEST_FONT_PX = 10;
/** The padding of the element, with its border and a scroll bar below. */
const PADDING_PX = 34;
/** The colours of a run do not follow those of the page: programs expect a dark terminal. */
const THEME = {
  background: "#16181b",
  foreground: "#e6e8ea",
  cursor: "#86b4f7",
  selectionBackground: "#35507a",
};

/** A terminal of xterm.js in an element of the page. */
export class Screen implements Disposable {
  readonly #terminal: Terminal;
  readonly #search = new SearchAddon();
  readonly #fit = new FitAddon();
  readonly #element: HTMLElement;
  readonly #styles = stylesWithoutInline();
  #shown = false;
  /** Key presses go to the run; otherwise the browser handles them. */
  typing = false;

  constructor(element: HTMLElement, onInput: (bytes: Uint8Array<ArrayBuffer>) => void, onLeave: () => void) {
    this.#element = element;
    const terminal = new Terminal({
      allowProposedApi: true,
      cursorInactiveStyle: "outline",
      fontFamily: getComputedStyle(element).fontFamily,
      fontSize: FONT_PX,
      minimumContrastRatio: 4.5,
      scrollback: SCROLLBACK_LINES,
      theme: THEME,
      // Links of a program would lead out of the page.
      linkHandler: { activate: () => undefined },
    });
    this.#terminal = terminal;
    ignoreQueries(terminal);
    terminal.loadAddon(this.#search);
    terminal.loadAddon(this.#fit);
    terminal.open(element);
    terminal.attachCustomKeyEventHandler((event) => {
      if (!this.typing) return false;
      if (event.key !== "F6" || !event.shiftKey) return true;
      if (event.type === "keydown") onLeave();
      return false;
    });
    const send = (bytes: Uint8Array<ArrayBuffer>): void => {
      if (this.typing) onInput(bytes);
    };
    terminal.onData((text) => send(new TextEncoder().encode(text)));
    terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  }

  write(bytes: Uint8Array, shown: () => void): void {
    this.#terminal.write(bytes, shown);
  }

  get size(): TerminalSize {
    return { rows: this.#terminal.rows, cols: this.#terminal.cols };
  }

  /** Shows a size, in letters that fit into the width if they stay readable. */
  show({ rows, cols }: TerminalSize): void {
    const { size } = this;
    if (this.#shown && size.rows === rows && size.cols === cols) return;
    this.#shown = true;
    this.#terminal.resize(cols, rows);
    this.#terminal.options.fontSize = FONT_PX;
    const fitting = this.#fit.proposeDimensions()?.cols ?? cols;
    if (fitting < cols)
      this.#terminal.options.fontSize = Math.max(SMALLEST_FONT_PX, Math.floor((FONT_PX * fitting) / cols));
    // As high as its rows, up to the height that the style sheet allows.
    const rowsPx = this.#element.querySelector(".xterm-screen")?.clientHeight ?? 0;
    if (rowsPx > 0) this.#element.style.height = `${rowsPx + PADDING_PX}px`;
    this.#terminal.scrollToBottom();
  }

  /** The size that fills the element; null: it is not shown. */
  fittingSize(): TerminalSize | null {
    this.#terminal.options.fontSize = FONT_PX;
    this.#element.style.height = "";
    this.#shown = false;
    const { rows, cols } = this.#fit.proposeDimensions() ?? {};
    return rows === undefined || cols === undefined || !(rows > 0 && cols > 0) ? null : { rows, cols };
  }

  focus(): void {
    this.#terminal.focus();
  }

  find(text: string, backwards: boolean): boolean {
    return backwards ? this.#search.findPrevious(text) : this.#search.findNext(text);
  }

  clearSelection(): void {
    this.#terminal.clearSelection();
  }

  /** The lines of the screen and those that scrolled out of it, without the empty ones at the end. */
  text(): string {
    const { active } = this.#terminal.buffer;
    const lines: string[] = [];
    for (let at = 0; at < active.length; at++) {
      const line = active.getLine(at);
      const text = line?.translateToString(true) ?? "";
      if (line?.isWrapped === true) lines.push((lines.pop() ?? "") + text);
      else lines.push(text);
    }
    return lines.join("\n").trimEnd();
  }

  onChange(listener: () => void): void {
    this.#terminal.onWriteParsed(listener);
  }

  [Symbol.dispose](): void {
    this.#terminal.dispose();
    this.#styles[Symbol.dispose]();
    this.#element.replaceChildren();
  }
}
