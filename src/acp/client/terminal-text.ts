/** The newest of an output as text of at most so many bytes: it begins, and ends, with a whole character. */
export function lastBytesAsText(
  bytes: Buffer,
  limit: number,
  { cut, ended }: { readonly cut: boolean; readonly ended: boolean },
): { readonly output: string; readonly truncated: boolean } {
  const whole = bytes.subarray(
    cut ? nextCharacterStart(bytes, 0) : 0,
    ended ? bytes.length : lastWholeCharacterEnd(bytes),
  );
  // What is no UTF-8 is replaced by a character of three bytes: only now is it known how much there is.
  const text = Buffer.from(whole.toString());
  const from = text.length > limit ? nextCharacterStart(text, text.length - limit) : 0;
  return { output: text.subarray(from).toString(), truncated: cut || from > 0 };
}

/** A character has at most four bytes. */
const MAX_CHARACTER_BYTES = 4;

function nextCharacterStart(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && at - from < MAX_CHARACTER_BYTES - 1 && isContinuation(bytes[at])) at++;
  return at;
}

/** Before a character whose rest has yet to come. */
function lastWholeCharacterEnd(bytes: Buffer): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
