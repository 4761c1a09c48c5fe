/** The end or the beginning of a text. A copy: what `slice` returns keeps the whole alive, which may be megabytes. */
export function firstChars(text: string, chars: number): string {
  return text.length <= chars ? text : detachedCopy(text.slice(0, chars));
}

export function lastChars(text: string, chars: number): string {
  return text.length <= chars ? text : detachedCopy(text.slice(-chars));
}

/** UTF-16 as it is: half a surrogate pair stays one. */
function detachedCopy(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}
