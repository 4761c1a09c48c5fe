/**
 * Makes text from a process safe to show on a terminal. The result cannot move the cursor, set the title, colours or
 * clipboard, hide or reorder text, or forge another line.
 *
 * Whole escape sequences are removed, because they mean nothing as text. Remaining control characters are shown as
 * pictures, so that no sequence can form from the remains.
 */

// A control string contains only printable characters: an unterminated one ends at the next control character and
// cannot hide the following text, and matching stays linear.
const CONTROL_STRING = String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)`;
const CONTROL_SEQUENCE = String.raw`(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]`;
const SHORT_ESCAPE = String.raw`\x1b[ -/]*[0-~]`;
const ESCAPES = new RegExp(`${CONTROL_STRING}|${CONTROL_SEQUENCE}|${SHORT_ESCAPE}`, "g");

/** C0, DEL and C1 controls. */
const CONTROLS = String.raw`\x00-\x1f\x7f-\x9f`;
/**
 * Characters that reorder, break or hide text: bidirectional controls, line separators, zero-width and invisible
 * characters, tags, lone surrogates. The joiners U+200C and U+200D stay, because scripts and emoji need them.
 */
const DECEPTIVE = String.raw`\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Cs}`;
const UNSAFE = new RegExp(`[${CONTROLS}${DECEPTIVE}]`, "gu");

/** For a table cell or a one-line message: line ends and tabs are shown as pictures, too. */
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
