import type { ByteReader } from "../../src/output/byte-reader.js";

export interface StoredStream {
  readonly read: ByteReader;
  /** Bytes returned so far, and the largest read. */
  readonly given: { total: number; most: number };
  /** Drops the bytes before this offset, as a spool does. */
  readonly drop: (first: number) => void;
  readonly append: (bytes: Uint8Array) => void;
}

/** A stream in memory that behaves like a spool: reads may return fewer bytes than requested. */
export function storedStream(
  content: string | Uint8Array,
  { first = 0, mostAtOnce = Infinity }: { first?: number; mostAtOnce?: number } = {},
): StoredStream {
  let bytes = Buffer.from(content as string);
  let kept = first;
  const given = { total: 0, most: 0 };
  return {
    given,
    read: async (wanted, maxBytes) => {
      const offset = Math.max(wanted, kept);
      const slice = bytes.subarray(offset, offset + Math.min(maxBytes, mostAtOnce));
      given.total += slice.length;
      given.most = Math.max(given.most, slice.length);
      return slice.length === 0 ? { offset: wanted, bytes: slice } : { offset, bytes: slice };
    },
    drop: (offset) => {
      kept = offset;
    },
    append: (more) => {
      bytes = Buffer.concat([bytes, more]);
    },
  };
}
