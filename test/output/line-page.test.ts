import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput } from "../../src/errors.js";
import {
  type LineOptions,
  type LinePage,
  type LineRequest,
  readLinePage,
} from "../../src/output/line-page.js";
import { repetitions } from "../support/scale.js";
import { storedStream } from "./stored-stream.js";

const TEN = Array.from({ length: 10 }, (_, line) => `line ${line}\n`).join("");

function page(
  content: string | Uint8Array,
  wanted: LineRequest,
  options?: LineOptions,
  first = 0,
): Promise<LinePage> {
  return readLinePage(storedStream(content, { first }).read, wanted, options);
}

describe("a page of lines", () => {
  test("starts at the start, or after some lines", async () => {
    expect(await page(TEN, { lines: 2 })).toEqual({
      lines: ["line 0", "line 1"],
      firstOffset: 0,
      nextOffset: 14,
      unfinishedFrom: null,
      truncated: false,
      more: true,
      droppedBytes: 0,
      lostBytes: 0,
    });
    expect(await page(TEN, { skip: 8, lines: 5 })).toMatchObject({
      lines: ["line 8", "line 9"],
      firstOffset: 56,
      nextOffset: 70,
      more: false,
    });
    expect(await page(TEN, { from: 14, lines: 1 })).toMatchObject({ lines: ["line 2"], firstOffset: 14 });
    expect(await page(TEN, { skip: 99, lines: 1 })).toMatchObject({ lines: [], nextOffset: 70 });
  });

  test("contains the last lines, or those before them", async () => {
    expect(await page(TEN, { last: 2 })).toMatchObject({
      lines: ["line 8", "line 9"],
      firstOffset: 56,
      nextOffset: 70,
      more: false,
    });
    expect(await page(TEN, { last: 2, before: 56 })).toMatchObject({
      lines: ["line 6", "line 7"],
      nextOffset: 56,
      more: true,
    });
    expect((await page(TEN, { last: 99 })).lines).toHaveLength(10);
    expect(await page(TEN, { last: 0 })).toMatchObject({ lines: [], nextOffset: 70 });
    expect((await page("a\n\n\n", { last: 2 })).lines).toEqual(["", ""]);
  });

  test("is empty for an empty stream", async () => {
    expect(await page("", { last: 5 })).toMatchObject({
      lines: [],
      firstOffset: 0,
      nextOffset: 0,
      more: false,
    });
    expect(await page("", { lines: 5 })).toMatchObject({ lines: [], firstOffset: 0, nextOffset: 0 });
  });

  test("contains the start of an unfinished line, so that it can be read completely later", async () => {
    for (const wanted of [{ lines: 9 }, { last: 9 }])
      expect(await page("one\ntw", wanted)).toMatchObject({
        lines: ["one", "tw"],
        nextOffset: 6,
        unfinishedFrom: 4,
      });
  });

  test("has no half character at its end unless the stream has ended", async () => {
    const half = Buffer.from("a\nx€").subarray(0, -1);
    expect(await page(half, { lines: 9 })).toMatchObject({ lines: ["a", "x"], nextOffset: 3 });
    expect(await page(half, { last: 1 })).toMatchObject({ lines: ["x"], nextOffset: 3 });
    expect(await page(half, { lines: 9 }, { ended: true })).toMatchObject({
      lines: ["a", "x\ufffd"],
      nextOffset: 5,
    });
  });

  test("starts with the character that contains the requested offset", async () => {
    expect(await page("€uro\n", { from: 2, lines: 1 })).toMatchObject({ lines: ["€uro"], firstOffset: 0 });
  });

  test("is safe to show unless raw is requested", async () => {
    const text = "\u001b[31mred\u001b[m\tx\u202e\r\n";
    expect((await page(text, { lines: 1 })).lines).toEqual(["red\tx<U+202E>"]);
    expect((await page(text, { lines: 1 }, { raw: true })).lines).toEqual(["\u001b[31mred\u001b[m\tx\u202e"]);
  });

  test("shows the carriage returns of a progress bar, or only its last state", async () => {
    const text = "10%\r50%\r100%\r\nnext\r\n20%\r80%\r";
    expect((await page(text, { lines: 9 })).lines).toEqual(["10%␍50%␍100%", "next", "20%␍80%"]);
    expect((await page(text, { lines: 9 }, { collapse: true })).lines).toEqual(["100%", "next", "80%"]);
  });

  test.each([{ lines: -1 }, { lines: 1.5 }, { last: Number.NaN }, { from: -1, lines: 1 }])(
    "of %j is refused",
    async (wanted) => {
      await expect(page(TEN, wanted)).rejects.toThrow(BadInput);
    },
  );
});

describe("when older output was dropped", () => {
  test("a page from the start reports how much, and starts with the oldest byte kept", async () => {
    expect(await page(TEN, { lines: 1 }, {}, 16)).toMatchObject({
      lines: ["ne 2"],
      firstOffset: 16,
      droppedBytes: 16,
    });
    expect(await page(TEN, { from: 10, lines: 1 }, {}, 16)).toMatchObject({ droppedBytes: 6 });
    expect(await page(TEN, { from: 21, lines: 1 }, {}, 16)).toMatchObject({ droppedBytes: 0 });
  });

  test("the last lines report it only if some of them are gone", async () => {
    expect(await page(TEN, { last: 2 }, {}, 16)).toMatchObject({ droppedBytes: 0 });
    expect(await page(TEN, { last: 9 }, {}, 16)).toMatchObject({ droppedBytes: 16, firstOffset: 16 });
  });

  test("the rest of a character whose start is gone is left out", async () => {
    for (const wanted of [{ lines: 1 }, { last: 1 }])
      expect(await page("€uro\n", wanted, {}, 1)).toMatchObject({ lines: ["uro"], firstOffset: 3 });
  });

  test("a page that is being read ends there, and the next one reports the missing bytes", async () => {
    const stream = storedStream(TEN, { mostAtOnce: 10 });
    let reads = 0;
    const result = await readLinePage(
      (offset, maxBytes) => {
        if (maxBytes > 1 && (reads += 1) === 2) stream.drop(30);
        return stream.read(offset, maxBytes);
      },
      { lines: 9 },
    );
    expect(result.lines[0]).toBe("line 0");
    expect(result).toMatchObject({ more: true, droppedBytes: 0 });
    const next = await readLinePage(stream.read, { from: result.nextOffset, lines: 9 });
    expect(next.droppedBytes).toBe(30 - result.nextOffset);
    expect(next.lines.at(-1)).toBe("line 9");
  });
});

describe("limits:", () => {
  test("a line beyond its limit is cut between characters, and shows by how much", async () => {
    const result = await page(`${"€".repeat(10)}\nnext\n`, { lines: 2 }, { maxLineBytes: 10 });
    expect(result).toMatchObject({ lines: ["€€€… [21 bytes cut]", "next"], truncated: true, more: false });
  });

  test("a page beyond its limit ends early if read from the start, and starts late if read from the end", async () => {
    expect(await page(TEN, { lines: 9 }, { maxPageBytes: 20 })).toMatchObject({
      lines: ["line 0", "line 1", "line 2"],
      nextOffset: 21,
      truncated: true,
      more: true,
    });
    expect(await page(TEN, { last: 9 }, { maxPageBytes: 20 })).toMatchObject({
      lines: ["line 8", "line 9"],
      firstOffset: 56,
      truncated: true,
      more: false,
    });
  });

  test("no page has more lines than the limit", async () => {
    for (const wanted of [{ lines: 50_000 }, { last: 50_000 }]) {
      const result = await page("\n".repeat(30_000), wanted);
      expect(result.lines).toHaveLength(defaults.logPageLines);
      expect(result.truncated).toBe(true);
    }
  });

  test("the last lines of a large log are read from its end alone", async () => {
    const stream = storedStream(TEN.repeat(100_000));
    expect((await readLinePage(stream.read, { last: 100 })).lines).toHaveLength(100);
    expect(stream.given.total).toBeLessThan(2 * defaults.logChunkBytes);
    expect(stream.given.most).toBeLessThanOrEqual(defaults.logChunkBytes);
  });

  test("a known range saves the search for it", async () => {
    const stream = storedStream(TEN);
    const range = { first: 0, end: 35 };
    expect(await readLinePage(stream.read, { last: 1 }, { range })).toMatchObject({
      lines: ["line 4"],
      more: false,
    });
  });

  test("an endless line is read in chunks and shown truncated", async () => {
    const stream = storedStream(Buffer.alloc(8 * 1024 * 1024, "x"));
    for (const wanted of [{ lines: 1 }, { last: 1 }]) {
      const result = await readLinePage(stream.read, wanted);
      expect(result.lines[0]?.length).toBeLessThan(defaults.logLineBytes + 50);
      expect(result).toMatchObject({ truncated: true, nextOffset: 8 * 1024 * 1024, unfinishedFrom: 0 });
    }
    expect(stream.given.most).toBeLessThanOrEqual(defaults.logChunkBytes);
  });

  test("only the last state of an endless progress bar is held in memory", async () => {
    const bar = Array.from({ length: 200_000 }, (_, step) => `step ${step}\r`).join("");
    const result = await page(bar, { last: 1 }, { collapse: true });
    expect(result).toMatchObject({ lines: ["step 199999"], truncated: false });
  });
});

const piece = fc.oneof(
  fc.constantFrom("a", "€", "😀", "\n", "\r\n", "\r", "line\n").map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 4 }).map((bytes) => Buffer.from(bytes)),
);
const content = fc.array(piece, { maxLength: 60 }).map((pieces) => Buffer.concat(pieces));

test("a page is the same however a stream splits its bytes", async () => {
  const wanted = fc.oneof(
    fc.record({ from: fc.nat(80), skip: fc.nat(4), lines: fc.nat(9) }),
    fc.record({ last: fc.nat(9), before: fc.nat(120) }),
  );
  const options = fc.record({ collapse: fc.boolean(), ended: fc.boolean(), maxLineBytes: fc.nat(12) });
  await fc.assert(
    fc.asyncProperty(
      content,
      fc.nat(40),
      fc.integer({ min: 1, max: 7 }),
      wanted,
      options,
      async (bytes, first, mostAtOnce, ...asked) => {
        const whole = await readLinePage(storedStream(bytes, { first }).read, ...asked);
        const cut = await readLinePage(storedStream(bytes, { first, mostAtOnce }).read, ...asked);
        expect(cut).toEqual(whole);
      },
    ),
    { numRuns: repetitions(100, 1000) },
  );
});

test("pages from first to last, or from last to first, form the whole log", async () => {
  await fc.assert(
    fc.asyncProperty(content, fc.integer({ min: 1, max: 5 }), async (bytes, lines) => {
      const { read } = storedStream(bytes);
      const text = bytes.toString("utf8").replace(/\n$/, "");
      const expected = bytes.length === 0 ? [] : text.split("\n").map((line) => line.replace(/\r$/, ""));
      const options = { raw: true, ended: true };
      const forward: string[] = [];
      for (let from = 0, more = true; more;) {
        const next = await readLinePage(read, { from, lines }, options);
        forward.push(...next.lines);
        ({ nextOffset: from, more } = next);
      }
      const backward: string[] = [];
      for (let before = bytes.length; before > 0;) {
        const next = await readLinePage(read, { last: lines, before }, options);
        backward.unshift(...next.lines);
        before = next.firstOffset;
      }
      expect(forward).toEqual(expected);
      expect(backward).toEqual(expected);
    }),
    { numRuns: repetitions(100, 500) },
  );
});
