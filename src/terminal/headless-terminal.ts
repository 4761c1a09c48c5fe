import { createRequire } from "node:module";
import type * as Serialize from "@xterm/addon-serialize";
import type * as Headless from "@xterm/headless";
import type { Terminal } from "@xterm/headless";
import { defaults } from "../defaults.js";
import { characterWidth } from "../text/display-width.js";

// Both packages are CommonJS, and Node cannot detect their exports from an ES module. They are loaded at the first use,
// because an idle gateway has no screen to compute.
const require = createRequire(import.meta.url);

export interface HeadlessTerminal {
  readonly terminal: Terminal;
  readonly serializer: { serialize(): string };
}

/**
 * Creates a terminal without a window for output that may be hostile. It limits what xterm.js leaves unlimited: its
 * memory is a fixed number of cells and a few short strings.
 */
export function createHeadlessTerminal(rows: number, cols: number): HeadlessTerminal {
  const { Terminal: XtermTerminal } = require("@xterm/headless") as typeof Headless;
  const { SerializeAddon } = require("@xterm/addon-serialize") as typeof Serialize;
  const terminal = new XtermTerminal({
    rows,
    cols,
    scrollback: defaults.scrollbackLines,
    allowProposedApi: true,
    logLevel: "off",
    windowOptions: { pushTitle: true, popTitle: true, getWinSizeChars: true },
  });
  const addon = new SerializeAddon();
  terminal.loadAddon(addon);
  terminal.unicode.register({ version: UNICODE_VERSION, wcwidth: characterWidth, charProperties });
  terminal.unicode.activeVersion = UNICODE_VERSION;
  limitRepeatCounts(terminal);
  limitStrings(terminal);
  return { terminal, serializer: addon };
}

const UNICODE_VERSION = "holdfast";

/** Combining marks per cell; scripts need up to four. */
const MARKS_PER_CELL = 8;

/**
 * xterm.js packs into one number: whether to join the previous cell (bit 0), the width (bits 1 and 2), and a state,
 * which counts the marks here.
 */
function charProperties(code: number, preceding: number): number {
  const width = characterWidth(code);
  const precedingWidth = (preceding >> 1) & 3;
  if (width > 0 || precedingWidth === 0) return width << 1;
  const marks = (preceding >> 3) + 1;
  // Without a limit, a cell would grow forever. Further marks get their own cell.
  if (marks > MARKS_PER_CELL) return 1 << 1;
  return (marks << 3) | (precedingWidth << 1) | 1;
}

/** Final characters of: insert, delete and scroll lines; tab forward and back; repeat. */
const REPEATING_SEQUENCES = ["L", "M", "S", "T", "I", "Z", "b"];
const MIN_REPEAT_LIMIT = 255;

/**
 * xterm.js executes these one by one as often as the parameter says: up to two billion times for eleven bytes. A count
 * above the screen size is ignored, because a handler cannot lower it. No real program sends one.
 */
function limitRepeatCounts(terminal: Terminal): void {
  for (const final of REPEATING_SEQUENCES)
    terminal.parser.registerCsiHandler({ final }, ([count]) => {
      return typeof count === "number" && count > Math.max(MIN_REPEAT_LIMIT, terminal.rows, terminal.cols);
    });
}

/** xterm.js keeps titles of any length on a stack, and every cell of a hyperlink keeps its URL. */
function limitStrings(terminal: Terminal): void {
  for (const titles of [0, 1, 2])
    terminal.parser.registerOscHandler(titles, (title) => title.length > defaults.titleChars);
  terminal.parser.registerOscHandler(OSC_HYPERLINK, () => true);
}

const OSC_HYPERLINK = 8;

/** Characters of a control string that are passed on. Titles and queries are far shorter, and images are not drawn. */
const MAX_STRING_CHARS = 4096;

type State = "text" | "escape" | "osc" | "dcs";

/**
 * Patterns for the start of a control string or escape, for the end of a control string, and for characters that do not
 * end an escape.
 */
const STRING_START = /[\u001b\u0090\u009d]/g;
const OSC_END = /[\u0007\u0018\u001a\u001b\u0080-\u009f]/g;
const DCS_END = /[\u0018\u001a\u001b\u0080-\u009f]/g;
const C0_IN_ESCAPE = /[\0-\u0017\u0019\u001c-\u001f\u007f]/;

/**
 * Shortens control strings (OSC and DCS) in terminal output that may be split anywhere. xterm.js collects up to ten
 * million characters of one, twice, at about thirty bytes each.
 */
export class ControlStringLimiter {
  #state: State = "text";
  #passed = 0;

  push(text: string): string {
    const parts: string[] = [];
    let position = 0;
    while (position < text.length) {
      const end = this.#findNextChange(text, position);
      parts.push(this.#limit(text.slice(position, end)));
      if (end < text.length) {
        parts.push(text.charAt(end));
        this.#advanceState(text.charAt(end));
      }
      position = end + 1;
    }
    return parts.join("");
  }

  #findNextChange(text: string, from: number): number {
    if (this.#state === "escape") return from;
    const pattern = this.#state === "text" ? STRING_START : this.#state === "osc" ? OSC_END : DCS_END;
    pattern.lastIndex = from;
    return pattern.exec(text)?.index ?? text.length;
  }

  #limit(text: string): string {
    if (this.#state === "text") return text;
    const room = Math.max(0, MAX_STRING_CHARS - this.#passed);
    this.#passed += text.length;
    return text.slice(0, room);
  }

  #advanceState(character: string): void {
    // A control character inside an escape is executed, and the escape continues.
    if (this.#state === "escape" && C0_IN_ESCAPE.test(character)) return;
    const wasEscape = this.#state === "escape";
    this.#passed = 0;
    if (character === "\u001b") this.#state = "escape";
    else if (character === "\u009d" || (wasEscape && character === "]")) this.#state = "osc";
    else if (character === "\u0090" || (wasEscape && character === "P")) this.#state = "dcs";
    else this.#state = "text";
  }
}
