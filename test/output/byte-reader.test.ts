import fc from "fast-check";
import { expect, test } from "vitest";
import { findRange, readRange } from "../../src/output/byte-reader.js";
import { storedStream } from "./stored-stream.js";

test("the range of a stream is found with few reads of one byte", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(5_000), fc.nat(5_000), async (length, dropped) => {
      const first = Math.min(dropped, length);
      const { read, given } = storedStream(Buffer.alloc(length), { first });
      const found = await findRange(read);
      // A stream with no kept bytes does not show where it was.
      expect(found).toEqual(first === length ? { first: 0, end: 0 } : { first, end: length });
      expect(given).toMatchObject({ most: first === length ? 0 : 1 });
      expect(given.total).toBeLessThan(30);
    }),
  );
});

test("a range is read completely with reads of any size, or from its first kept byte", async () => {
  const { read, drop } = storedStream("0123456789", { mostAtOnce: 3 });
  const text = async (first: number, end: number): Promise<[number, string]> => {
    const { offset, bytes } = await readRange(read, { first, end });
    return [offset, Buffer.from(bytes).toString()];
  };
  expect(await text(1, 9)).toEqual([1, "12345678"]);
  expect(await text(8, 99)).toEqual([8, "89"]);
  drop(4);
  expect(await text(1, 9)).toEqual([4, "45678"]);
  expect(await text(1, 3)).toEqual([1, ""]);
});
