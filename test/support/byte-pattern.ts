import { createHash } from "node:crypto";

/**
 * Bytes that differ at every offset, so that lost, doubled or moved bytes are found. All 256 values
 * occur, and the period is a prime far from any buffer's or segment's size.
 */
const PERIOD = 99_991;
const period: Buffer = (() => {
  const bytes = Buffer.alloc(PERIOD);
  let state = 0x2545_f491;
  for (let at = 0; at < PERIOD; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
})();

/** `length` bytes of the pattern, from `offset` on. */
export function bytePattern(length: number, offset = 0): Buffer {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const from = (offset + done) % PERIOD;
    done += period.copy(bytes, done, from, Math.min(PERIOD, from + length - done));
  }
  return bytes;
}

/** Lines "1\n" … "count\n", as seq(1) prints them. */
export function numberedLines(count: number): string {
  return Array.from({ length: count }, (_, at) => `${at + 1}\n`).join("");
}

export function hash(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
