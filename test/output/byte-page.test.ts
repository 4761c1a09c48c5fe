import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput } from "../../src/errors.js";
import { readBytePage } from "../../src/output/byte-page.js";
import { type ByteReader, findRange, readRange } from "../../src/output/byte-reader.js";
import { readLinePage } from "../../src/output/line-page.js";
import { repetitions } from "../support/scale.js";
import { storedStream } from "./stored-stream.js";

test("a page of bytes does not split a character at either end", async () => {
  const { read } = storedStream("a€b€c");
  expect(await readBytePage(read, { offset: 2, bytes: 5 })).toEqual({
    text: "€b",
    firstOffset: 1,
    nextOffset: 5,
    truncated: false,
    more: true,
    droppedBytes: 0,
    lostBytes: 0,
  });
});

test("a page reports dropped bytes, and leaves out the rest of a character", async () => {
  const { read } = storedStream("a€b", { first: 2 });
  expect(await readBytePage(read, { offset: 0, bytes: 9 })).toMatchObject({
    text: "b",
    firstOffset: 4,
    droppedBytes: 4,
    more: false,
  });
});

test("a page is safe to show unless raw is requested", async () => {
  const { read } = storedStream("\u001b[31mred\r\n");
  expect((await readBytePage(read, { offset: 0, bytes: 99 })).text).toBe("red\n");
  expect((await readBytePage(read, { offset: 0, bytes: 99 }, { raw: true })).text).toBe("\u001b[31mred\r\n");
});

test("a page beyond the end is empty, and contains the end offset", async () => {
  const { read } = storedStream("abc");
  expect(await readBytePage(read, { offset: 99, bytes: 9 })).toMatchObject({
    text: "",
    nextOffset: 3,
    more: false,
  });
});

test("a page is limited in size", async () => {
  const { read } = storedStream(Buffer.alloc(3 * defaults.logPageBytes, "x"));
  const page = await readBytePage(read, { offset: 0, bytes: Number.MAX_SAFE_INTEGER });
  expect(page).toMatchObject({ truncated: true, more: true, nextOffset: defaults.logPageBytes });
});

test.each([-1, 0.5, Number.NaN])("an offset of %d is refused", async (offset) => {
  await expect(readBytePage(storedStream("").read, { offset, bytes: 1 })).rejects.toThrow(BadInput);
});

test("pages of any size form the whole text, valid UTF-8 or not", async () => {
  const piece = fc.oneof(
    fc.constantFrom("a", "€", "😀", "\n").map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes)),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 30 }).map((pieces) => Buffer.concat(pieces)),
      fc.integer({ min: 0, max: 9 }),
      fc.integer({ min: 1, max: 9 }),
      async (content, bytes, mostAtOnce) => {
        const { read } = storedStream(content, { mostAtOnce });
        let text = "";
        for (let offset = 0, more = true; more;) {
          const page = await readBytePage(read, { offset, bytes }, { raw: true, ended: true });
          text += page.text;
          ({ nextOffset: offset, more } = page);
        }
        expect(text).toBe(content.toString("utf8"));
      },
    ),
    { numRuns: repetitions(100, 1000) },
  );
});

describe("with lost bytes", () => {
  /** "aé" with the last byte of the é lost, nothing up to offset 10, then "b€". */
  const pieces = [
    { at: 0, bytes: Buffer.from("aé").subarray(0, 2) },
    { at: 10, bytes: Buffer.from("b€") },
  ] as const;
  const read: ByteReader = async (offset, maxBytes) => {
    for (const { at, bytes } of pieces) {
      if (at + bytes.length <= offset) continue;
      const start = Math.max(offset, at);
      const lost = start - offset;
      const slice = bytes.subarray(start - at, start - at + maxBytes);
      return lost === 0 ? { offset: start, bytes: slice } : { offset: start, bytes: slice, lost };
    }
    return offset < 20
      ? { offset: 20, bytes: new Uint8Array(0), lost: 20 - offset }
      : { offset, bytes: new Uint8Array(0) };
  };

  test("pages end before a gap, the next one reports it, and each makes progress", async () => {
    const pages: unknown[] = [];
    for (let offset = 0; ;) {
      const { text, firstOffset, nextOffset, droppedBytes, lostBytes, more } = await readBytePage(read, {
        offset,
        bytes: 100,
      });
      pages.push([text, firstOffset, nextOffset, droppedBytes, lostBytes]);
      offset = nextOffset;
      if (!more) break;
    }
    expect(pages).toEqual([
      ["a\uFFFD", 0, 2, 0, 0],
      ["b€", 10, 14, 8, 8],
      ["", 20, 20, 6, 6],
    ]);
  });

  test("lines after a gap are shown, and missing bytes are counted", async () => {
    expect(await readLinePage(read, { last: 10 })).toMatchObject({ lines: ["b€"], lostBytes: 14 });
    expect(await readLinePage(read, { from: 2, lines: 10 })).toMatchObject({ lines: ["b€"], lostBytes: 14 });
  });
});

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
