import { createRequire } from "node:module";
import type * as Serialize from "@xterm/addon-serialize";
import type * as Headless from "@xterm/headless";
import type { Terminal } from "@xterm/headless";
import { defaults } from "../defaults.js";
import { characterWidth } from "../text/width.js";

// Both packages are CommonJS, and Node cannot detect their exports from an ES module.
const require = createRequire(import.meta.url);
const xterm = require("@xterm/headless") as typeof Headless;
const { SerializeAddon } = require("@xterm/addon-serialize") as typeof Serialize;

export interface HeadlessTerminal {
  readonly terminal: Terminal;
  readonly serializer: { serialize(): string };
}

/**
 * Creates a terminal without a window for output that may be hostile. It limits what xterm.js leaves unlimited: its
 * memory is a fixed number of cells and a few short strings.
 */
export function createHeadlessTerminal(rows: number, cols: number): HeadlessTerminal {
  const terminal = new xterm.Terminal({
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
