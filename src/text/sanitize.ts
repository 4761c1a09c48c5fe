/**
 * Makes text that came from a process safe to show on a terminal: nothing in the result can move the
 * cursor, set title, colour or clipboard, hide or reorder what stands beside it, or forge another line.
 *
 * Whole escape sequences are taken out, for they mean nothing as text; every control character that is
 * left is shown as a picture, so that nothing can hide and no sequence can form from the remains.
 */

// The content of a control string is printable only: an unterminated one ends at the next control
// character and cannot swallow what follows, and matching stays linear.
const CONTROL_STRING = String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)`;
const CONTROL_SEQUENCE = String.raw`(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]`;
const SHORT_ESCAPE = String.raw`\x1b[ -/]*[0-~]`;
const ESCAPES = new RegExp(`${CONTROL_STRING}|${CONTROL_SEQUENCE}|${SHORT_ESCAPE}`, "g");

/** C0, DEL and C1 controls. */
const CONTROLS = String.raw`\x00-\x1f\x7f-\x9f`;
/**
 * Characters that reorder, break or vanish: bidirectional controls, line separators, zero-width and
 * invisible ones, tags, lone surrogates. The joiners U+200C and U+200D stay: scripts and emoji need them.
 */
const DECEPTIVE = String.raw`\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Cs}`;
const UNSAFE = new RegExp(`[${CONTROLS}${DECEPTIVE}]`, "gu");

/** For a cell of a table or one line of a message: line ends and tabs are shown too. */
export function sanitizeLine(text: string): string {
  return text.replace(ESCAPES, "").replace(UNSAFE, visibleForm);
}

/** For text of several lines: keeps line ends and tabs. */
export function sanitizeText(text: string): string {
  return text
    .replace(ESCAPES, "")
    .replace(/\r\n/g, "\n")
    .replace(UNSAFE, (character) =>
      character === "\n" || character === "\t" ? character : visibleForm(character),
    );
}

function visibleForm(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
