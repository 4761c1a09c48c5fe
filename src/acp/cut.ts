/** The end or the beginning of a text. A copy: what `slice` returns keeps the whole alive, which may be megabytes. */
export function firstOf(text: string, chars: number): string {
  return text.length <= chars ? text : copy(text.slice(0, chars));
}

export function lastOf(text: string, chars: number): string {
  return text.length <= chars ? text : copy(text.slice(-chars));
}

/** UTF-16 as it is: half a surrogate pair stays one. */
function copy(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}
