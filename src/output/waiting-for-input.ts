import { defaults } from "../defaults.js";
import { sanitizeLine } from "../text/sanitize.js";
import type { ScreenSnapshot } from "./screen.js";

export interface PromptSignals {
  /** The end of the output, or of the screen up to its cursor; a few hundred characters are enough. */
  readonly tail: string;
  /** Time since the last output. */
  readonly idleMs: number;
  /** The program uses the alternate screen (an editor, a pager). Default false. */
  readonly alternate?: boolean;
  /** The program's stdin is open. Default true. A program without stdin does not wait for input. */
  readonly stdinOpen?: boolean;
  /** The terminal does not echo input but collects lines, as for a password. Null if not known. */
  readonly hiddenInput?: boolean | null;
  /** A process of the run sleeps in a read of its terminal or stdin. Null if not known. */
  readonly reading?: boolean | null;
}

export interface PromptGuess {
  readonly seems: boolean;
  /** One sentence for users. */
  readonly because: string;
}

/**
 * Guesses from the outside whether a program waits for input. A silent program may be working, and a prompt may be part
 * of a log. Reliable signals are checked first.
 */
export function guessWaitingForInput(signs: PromptSignals): PromptGuess {
  const { tail, idleMs, alternate = false, stdinOpen = true, hiddenInput = null, reading = null } = signs;
  if (!stdinOpen) return no("its stdin is closed");
  if (reading === false) return no("none of its processes reads its input");
  const silent = `nothing was printed for ${seconds(idleMs)}`;
  if (idleMs < defaults.waitingPromptIdleMs) return no(`it printed something ${seconds(idleMs)} ago`);
  if (reading === true) return yes(`it reads its input, and ${silent}`);
  if (hiddenInput === true) return yes(`its terminal hides what is typed, as for a password, and ${silent}`);
  const line = lastLine(tail);
  const prompt = PROMPT_PATTERNS.find(({ shape }) => shape.test(line));
  if (prompt !== undefined)
    return yes(`its last line looks like ${prompt.what} ("${lastCharacters(line)}"), and ${silent}`);
  if (alternate) return yes(`it shows a full screen, and ${silent}`);
  if (idleMs >= defaults.waitingIdleMs) return yes(silent);
  return no(`its last line does not look like a prompt, and ${silent} only`);
}

/**
 * Returns the line of the cursor up to the cursor, for `tail`. A prompt's trailing blank is not in the snapshot's rows.
 */
export function lineBeforeCursor({ rows, cursor }: Pick<ScreenSnapshot, "rows" | "cursor">): string {
  return (rows[cursor.y] ?? "").slice(0, cursor.x).padEnd(cursor.x);
}

const MAX_QUOTED_CHARS = 60;
/** A prompt is short, so only the end of a longer line is checked. */
const MAX_LINE_CHARS = 500;

/** Patterns for a line without a line end. The first match is reported. */
const PROMPT_PATTERNS: readonly { readonly what: string; readonly shape: RegExp }[] = [
  {
    what: "a question for a secret",
    shape: /(?:pass(?:word|phrase|code)|\bpin|secret|token|otp|verification code)\b[^\n]{0,200}:\s*$/i,
  },
  {
    what: "a question for yes or no",
    shape: /[[(](?:y(?:es)?\s*\/\s*n(?:o)?)(?:\s*\/[^\])]{1,20})?[\])]\s*[?:]?\s*$/i,
  },
  {
    what: "a pause",
    shape:
      /(?:press|hit)\s[^\n]{0,40}\b(?:key|enter|return)\b[^\n]{0,40}$|--\s?more\s?--[^\n]{0,20}$|^\(END\)\s*$/i,
  },
  { what: "a question", shape: /\?\s*(?:[[(][^\])]{1,40}[\])]\s*:?\s*)?$/ },
  { what: "a shell's prompt", shape: /(?:[$#❯➜»]|(?<!\d)%)\s?$/u },
  {
    what: "a prompt",
    shape: /^[^<]*(?:^|[^<=-])>{1,3}\s?$|^:$|^(?:\.\.\.|In \[\d+\]:)\s?$|\(\w{1,20}db\)\s?$/,
  },
  { what: "a prompt", shape: /[\w)\]"']:\s?$/ },
];

function lastLine(tail: string): string {
  const line = tail.slice(tail.lastIndexOf("\n") + 1).slice(-MAX_LINE_CHARS);
  // Only the last state of a line that was overwritten.
  return sanitizeLine(line.slice(line.lastIndexOf("\r") + 1));
}

/** Cuts at character boundaries, because half a character is not safe to show. */
function lastCharacters(line: string): string {
  return Array.from(line.trim()).slice(-MAX_QUOTED_CHARS).join("");
}

function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

function yes(because: string): PromptGuess {
  return { seems: true, because };
}

function no(because: string): PromptGuess {
  return { seems: false, because };
}
