/** Deeper than any message means to be. What writes it out again would not come to an end much further down. */
const MAX_DEPTH = 500;

/** More than any message needs: what is large in them is text. Each costs a parser about a microsecond, and a hundred bytes. */
const MAX_VALUES = 200_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** As a bracket and as a brace, opening and closing: they differ in this bit only. */
const BRACE = 0x20;
const OPENING = 0x5b;
const CLOSING = 0x5d;

/**
 * Why a line of JSON would take too long to parse; null: it would not. Looked at before, in one pass over the bytes:
 * megabytes of brackets would hold up whoever parses them for half a minute.
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

/** Where the quote is that ends the text which begins here; else the end of the line. */
function endOfString(line: Buffer, begin: number): number {
  for (let at = begin + 1; ; at++) {
    at = line.indexOf(QUOTE, at);
    if (at < 0) return line.length;
    let backslashes = 0;
    while (line[at - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}
