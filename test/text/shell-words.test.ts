import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { shellQuote, splitShellWords } from "../../src/text/shell-words.js";

describe("the words of a stored command line", () => {
  test.each<[string, readonly string[]]>([
    ["", []],
    ["  \t\n ", []],
    ["node /opt/x/wrap.mjs --fast", ["node", "/opt/x/wrap.mjs", "--fast"]],
    ['"node" "/opt/x/wrap.mjs"', ["node", "/opt/x/wrap.mjs"]],
    ["'node'  'a b'\tc", ["node", "a b", "c"]],
    [`a"b c"'d e'f`, ["ab cd ef"]],
    [`"" '' a`, ["", "", "a"]],
    [`a\\ b \\"c\\" \\\\`, ["a b", '"c"', "\\"]],
    [`"a\\"b\\\\c\\$d\\\`e\\n"`, ['a"b\\c$d`e\\n']],
    ["'a\\b'", ["a\\b"]],
    // Only a shell's quoting: nothing is expanded, joined or left out.
    ["a $HOME *.c `x` | b > c # d", ["a", "$HOME", "*.c", "`x`", "|", "b", ">", "c", "#", "d"]],
  ])("%j", (text, words) => {
    expect(splitShellWords(text)).toEqual(words);
  });

  test.each([`'`, `"`, `a 'b`, `a "b \\"`, `a\\`, `"a'`])(
    "%j has an open quotation and is not split",
    (text) => {
      expect(splitShellWords(text)).toBeNull();
    },
  );

  test("quoted for a shell and split again are the same", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", " ", "'", '"', "\\", "$", "`", "*") });
    fc.assert(
      fc.property(fc.array(word), (words) => {
        expect(splitShellWords(words.map((each) => shellQuote(each)).join(" "))).toEqual(words);
      }),
    );
  });
});
