import { defaults } from "../defaults.js";
import { sanitizeLine } from "../text/sanitize.js";

interface PromptSignals {
  /** The end of the output, or of the screen up to its cursor; a few hundred characters are enough. */
  readonly tail: string;
  /** Time since the last output. */
  readonly idleMs: number;
}

interface PromptGuess {
  readonly seems: boolean;
  /** One sentence for users. */
  readonly because: string;
}

/**
 * Guesses from the outside whether a program waits for input. A silent program may be working, and a prompt may be part
 * of a log.
 */
export function guessWaitingForInput({ tail, idleMs }: PromptSignals): PromptGuess {
  const silent = `nothing was printed for ${seconds(idleMs)}`;
  if (idleMs < defaults.waitingPromptIdleMs) return no(`it printed something ${seconds(idleMs)} ago`);
  const line = lastLine(tail);
  const prompt = PROMPT_PATTERNS.find(({ shape }) => shape.test(line));
  if (prompt !== undefined)
    return yes(`its last line looks like ${prompt.what} ("${lastCharacters(line)}"), and ${silent}`);
  if (idleMs >= defaults.waitingIdleMs) return yes(silent);
  return no(`its last line does not look like a prompt, and ${silent} only`);
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
