import { expect, test } from "vitest";
import { characterWidth } from "../../src/text/width.js";

test.each([
  ["no cell for marks, joiners and controls", 0, "\u0301\u0e31\u200d\ufe0f\u1161\0\u007f\u0085"],
  ["one for letters, symbols, box lines and private icons", 1, "a~é\u00adЯא─█▒→✓★\u{e0b0}"],
  ["two for East Asian characters and emoji", 2, "漢ひカ한（￥😀🎉⌚✅🚀\u{20000}"],
])("%s", (_what, width, characters) => {
  for (const character of characters)
    expect([character, characterWidth(character.codePointAt(0) ?? 0)]).toEqual([character, width]);
});
