/** Above every string that starts with `prefix`, in byte order. */
export function prefixUpperBound(prefix: string): string {
  return `${prefix}\u{10FFFF}`;
}
