import { createRequire } from "node:module";
import type * as Serialize from "@xterm/addon-serialize";
import type * as Headless from "@xterm/headless";
import type { Terminal } from "@xterm/headless";
import { defaults } from "../defaults.js";

/**
 * How many cells a character takes, as programs of today count (wcwidth of Unicode 9 and later: emoji
 * are wide). The headless terminal's own table is that of Unicode 6, where they are not.
 */
export function characterWidth(code: number): 0 | 1 | 2 {
  if (code < 0x300) return code === 0xad || (code >= 0x20 && code < 0x7f) || code >= 0xa0 ? 1 : 0;
  const known = cachedWidths.get(code);
  if (known !== undefined) return known;
  const width = measureWidth(code);
  if (cachedWidths.size < MAX_CACHED_WIDTHS) cachedWidths.set(code, width);
  return width;
}

/** Distinct characters on one screen are far fewer; measuring costs a microsecond. */
const MAX_CACHED_WIDTHS = 4096;
const cachedWidths = new Map<number, 0 | 1 | 2>();

function measureWidth(code: number): 0 | 1 | 2 {
  const character = String.fromCodePoint(code);
  // Marks, format characters (joiners, directions), and the vowels and finals that Hangul puts onto a syllable.
  if (/[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u.test(character)) return 0;
  return WIDE_CHARACTERS.test(character) ? 2 : 1;
}

/** East Asian wide and full-width blocks, and what is an emoji without being asked to. */
const WIDE_CHARACTERS =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;

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
