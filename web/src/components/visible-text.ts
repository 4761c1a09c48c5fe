/** Controls other than tab and line feed, and characters that change the direction of text or have no width. */
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text or a name that others chose, with invisible characters as the gateway's other texts show them: `<U+202E>`. */
export function visibleText(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(
      INVISIBLE,
      (character) => `<U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`,
    );
}
