import fc from "fast-check";
import { expect, test } from "vitest";
import { ControlStringLimiter } from "../../src/terminal/headless-terminal.js";
import { characterWidth } from "../../src/text/display-width.js";

test.each([
  ["no cell for marks, joiners and controls", 0, "\u0301\u0e31\u200d\ufe0f\u1161\0\u007f\u0085"],
  ["one for letters, symbols, box lines and private icons", 1, "a~é\u00adЯא─█▒→✓★\u{e0b0}"],
  ["two for East Asian characters and emoji", 2, "漢ひカ한（￥😀🎉⌚✅🚀\u{20000}"],
])("%s", (_what, width, characters) => {
  for (const character of characters)
    expect([character, characterWidth(character.codePointAt(0) ?? 0)]).toEqual([character, width]);
});

const ESC = "\u001b";
const LONG = "x".repeat(10_000);

function bounded(...chunks: string[]): string {
  const bound = new ControlStringLimiter();
  return chunks.map((chunk) => bound.push(chunk)).join("");
}

test.each([
  ["a title", `${ESC}]0;`, "\u0007after"],
  ["an 8-bit title", "\u009d0;", "\u009cafter"],
  ["a device control string, which BEL does not end", `${ESC}P\u0007`, `${ESC}\\after`],
  ["one that begins with a control between its characters", `${ESC}\n]0;`, `${ESC}\\after`],
])("%s is shortened, and the text after it is not", (_what, begin, end) => {
  const result = bounded(begin + LONG + end + LONG);
  expect(result.length).toBeLessThan(begin.length + 4_100 + end.length + LONG.length);
  expect(result.startsWith(`${begin}xxx`)).toBe(true);
  expect(result.endsWith(end + LONG)).toBe(true);
});

test.each([
  ["text", LONG],
  ["sequences", `${ESC}[1m${LONG}${ESC}(B${LONG}${ESC}7]${LONG}`],
  ["a bracket after another escape", `${ESC} ]${LONG}`],
  ["a string that was cancelled", `${ESC}]0;\u0018${LONG}`],
])("%s is unchanged", (_what, text) => {
  expect(bounded(text)).toBe(text);
});

test("the result is the same however output is split", () => {
  const unit = fc.constantFrom(ESC, "]", "P", "\u0007", "\\", "\n", "\u009c", "\u009d", "\u0018", "é", LONG);
  fc.assert(
    fc.property(fc.array(unit), fc.nat(), (units, at) => {
      const text = units.join("");
      const middle = text.length === 0 ? 0 : at % text.length;
      expect(bounded(text.slice(0, middle), text.slice(middle))).toBe(bounded(text));
    }),
  );
});
