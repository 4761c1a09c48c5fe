/** Above every string that starts with `prefix`, in byte order. */
export function afterPrefix(prefix: string): string {
  return `${prefix}\u{10FFFF}`;
}
