import fc from "fast-check";
import { expect, test } from "vitest";
import { incompleteTailBytes, orphanedHeadBytes, Utf8Decoder } from "../../src/text/utf8.js";
import { repetitions } from "../support/scale.js";

const TEXT = "aé€😀\u0000x\u{10ffff}ю漢字 ﷽";

function decode(chunks: readonly Uint8Array[]): string {
  const decoder = new Utf8Decoder();
  return chunks.map((chunk) => decoder.push(chunk)).join("") + decoder.end();
}

test("every split of multi-byte text decodes to the text", () => {
  const bytes = Buffer.from(TEXT);
  for (let first = 0; first <= bytes.length; first += 1) {
    for (let second = first; second <= bytes.length; second += 1) {
      expect(decode([bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)])).toBe(
        TEXT,
      );
    }
  }
});

test("a character is returned with the chunk that completes it", () => {
  const decoder = new Utf8Decoder();
  const [a, b, c] = Buffer.from("€");
  expect(decoder.push(Uint8Array.of(0x61, a ?? 0, b ?? 0))).toBe("a");
  expect(decoder.push(Uint8Array.of(c ?? 0))).toBe("€");
  expect(decoder.end()).toBe("");
});

test("any bytes decode to the same text in any split", () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    // Mostly lead and continuation bytes, which make the interesting invalid sequences.
    fc
      .array(
        fc.constantFrom(0x41, 0x80, 0xbf, 0xc2, 0xc0, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xf8, 0xff, 0xa0, 0x90),
        { maxLength: 30 },
      )
      .map((list) => Uint8Array.from(list)),
  );
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(), { maxLength: 8 }), (all, cuts) => {
      const places = [0, ...cuts.map((cut) => cut % (all.length + 1)).sort((a, b) => a - b), all.length];
      const chunks = places.slice(1).map((end, index) => all.subarray(places[index], end));
      expect(decode(chunks)).toBe(Buffer.from(all).toString("utf8"));
    }),
    { numRuns: repetitions(300, 3000) },
  );
});

test("a stream that ends inside a character ends with a replacement character", () => {
  expect(decode([Buffer.from("€").subarray(0, 2)])).toBe("\ufffd");
});

test("the caller may reuse its chunk", () => {
  const decoder = new Utf8Decoder();
  const chunk = Buffer.from("€").subarray(0, 2);
  decoder.push(chunk);
  chunk.fill(0);
  expect(decoder.push(Buffer.from("€").subarray(2))).toBe("€");
});

test("a split character is detected from both sides", () => {
  for (const character of ["é", "€", "😀"]) {
    const bytes = Buffer.from(character);
    for (let cut = 1; cut < bytes.length; cut += 1) {
      expect(incompleteTailBytes(bytes.subarray(0, cut))).toBe(cut);
      expect(orphanedHeadBytes(bytes.subarray(cut))).toBe(bytes.length - cut);
    }
    expect([incompleteTailBytes(bytes), orphanedHeadBytes(bytes)]).toEqual([0, 0]);
  }
});
