import fc from "fast-check";
import { expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput } from "../../src/errors.js";
import { bytePage } from "../../src/output/log-bytes.js";
import { storedStream } from "./stored-stream.js";

test("a page of bytes does not split a character at either end", async () => {
  const { read } = storedStream("a€b€c");
  expect(await bytePage(read, { offset: 2, bytes: 5 })).toEqual({
    text: "€b",
    firstOffset: 1,
    nextOffset: 5,
    truncated: false,
    more: true,
    droppedBytes: 0,
  });
});

test("a page says what is no longer kept, and leaves out the rest of a character", async () => {
  const { read } = storedStream("a€b", { first: 2 });
  expect(await bytePage(read, { offset: 0, bytes: 9 })).toMatchObject({
    text: "b",
    firstOffset: 4,
    droppedBytes: 4,
    more: false,
  });
});

test("a page is safe to show, unless it is wanted as it came", async () => {
  const { read } = storedStream("\u001b[31mred\r\n");
  expect((await bytePage(read, { offset: 0, bytes: 99 })).text).toBe("red\n");
  expect((await bytePage(read, { offset: 0, bytes: 99 }, { raw: true })).text).toBe("\u001b[31mred\r\n");
});

test("a page beyond the end is empty, and says where that is", async () => {
  const { read } = storedStream("abc");
  expect(await bytePage(read, { offset: 99, bytes: 9 })).toMatchObject({
    text: "",
    nextOffset: 3,
    more: false,
  });
});

test("a page has a bound", async () => {
  const { read } = storedStream(Buffer.alloc(3 * defaults.logPageBytes, "x"));
  const page = await bytePage(read, { offset: 0, bytes: Number.MAX_SAFE_INTEGER });
  expect(page).toMatchObject({ truncated: true, more: true, nextOffset: defaults.logPageBytes });
});

test.each([-1, 0.5, Number.NaN])("an offset of %d is refused", async (offset) => {
  await expect(bytePage(storedStream("").read, { offset, bytes: 1 })).rejects.toThrow(BadInput);
});

test("pages of any size make the whole text, valid or not", async () => {
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
          const page = await bytePage(read, { offset, bytes }, { raw: true, ended: true });
          text += page.text;
          ({ nextOffset: offset, more } = page);
        }
        expect(text).toBe(content.toString("utf8"));
      },
    ),
    { numRuns: 1000 },
  );
});
