import { createRequire } from "node:module";
import type * as Serialize from "@xterm/addon-serialize";
import type * as Headless from "@xterm/headless";
import type { Terminal } from "@xterm/headless";
import { defaults } from "../defaults.js";
import { characterWidth } from "./character-width.js";

// Both are CommonJS, whose names Node cannot see from an ES module.
const require = createRequire(import.meta.url);
const xterm = require("@xterm/headless") as typeof Headless;
const { SerializeAddon } = require("@xterm/addon-serialize") as typeof Serialize;

export interface HeadlessTerminal {
  readonly terminal: Terminal;
  readonly serializer: { serialize(): string };
}

/**
 * A terminal without a window, for output that may be hostile: what xterm.js leaves unbounded has a bound here.
 * Everything it holds is in its cells, whose number is given, and in a few short strings.
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

/** Marks that one cell holds: scripts need up to four. */
const MARKS_PER_CELL = 8;

/** xterm.js packs into a number: whether to join (bit 0), the width (bits 1, 2), and a state; here, the marks so far. */
function charProperties(code: number, preceding: number): number {
  const width = characterWidth(code);
  const precedingWidth = (preceding >> 1) & 3;
  if (width > 0 || precedingWidth === 0) return width << 1;
  const marks = (preceding >> 3) + 1;
  // A cell grows without end otherwise; further marks get a cell of their own.
  if (marks > MARKS_PER_CELL) return 1 << 1;
  return (marks << 3) | (precedingWidth << 1) | 1;
}

/** Insert, delete and scroll lines; tab forward and back; repeat. */
const REPEATING_SEQUENCES = ["L", "M", "S", "T", "I", "Z", "b"];
const MIN_REPEAT_LIMIT = 255;

/**
 * xterm.js does these one by one, as often as the parameter says: two thousand million times in eleven bytes.
 * A count above the screen's size is refused whole, for a handler cannot lower it; no program sends one.
 */
function limitRepeatCounts(terminal: Terminal): void {
  for (const final of REPEATING_SEQUENCES)
    terminal.parser.registerCsiHandler({ final }, ([count]) => {
      return typeof count === "number" && count > Math.max(MIN_REPEAT_LIMIT, terminal.rows, terminal.cols);
    });
}

/** Titles and their stack keep what they are given, and so does every cell of a hyperlink. */
function limitStrings(terminal: Terminal): void {
  for (const titles of [0, 1, 2])
    terminal.parser.registerOscHandler(titles, (title) => title.length > defaults.titleChars);
  terminal.parser.registerOscHandler(OSC_HYPERLINK, () => true);
}

const OSC_HYPERLINK = 8;
