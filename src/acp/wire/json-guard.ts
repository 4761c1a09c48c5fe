/** Deeper than any message. JSON.stringify would fail at a few thousand levels. */
const MAX_DEPTH = 500;

/** More than any message needs: large messages consist of text. Each value costs the parser a microsecond and a hundred bytes. */
const MAX_VALUES = 200_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** Brackets and braces differ only in this bit. */
const BRACE = 0x20;
const OPENING = 0x5b;
const CLOSING = 0x5d;

/**
 * Why a line of JSON would take too long to parse; null: it would not. Checked in one pass over the bytes before parsing,
 * because megabytes of brackets would block JSON.parse for half a minute.
 */
export function whyTooComplex(line: Buffer): string | null {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < line.length; at++) {
    const byte = line[at] ?? 0;
    if (byte === QUOTE) at = endOfString(line, at);
    else if (byte === COMMA) values++;
    else if ((byte & ~BRACE) === CLOSING) depth--;
    else if ((byte & ~BRACE) === OPENING) {
      values++;
      if (++depth > MAX_DEPTH) return "nested too deeply";
    }
    if (values > MAX_VALUES) return "too many values";
  }
  return null;
}

/** The index of the closing quote, or the end of the line. */
function endOfString(line: Buffer, begin: number): number {
  for (let at = begin + 1; ; at++) {
    at = line.indexOf(QUOTE, at);
    if (at < 0) return line.length;
    let backslashes = 0;
    while (line[at - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}
