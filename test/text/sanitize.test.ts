import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sanitizeLine, sanitizeText } from "../../src/text/sanitize.js";
import { repetitions, scaled } from "../support/scale.js";

const ESC = "\u001b";

describe("a sanitized line", () => {
  test.each([
    ["colours", `${ESC}[1;31mred${ESC}[0m`, "red"],
    ["cursor movement", `a${ESC}[2Jb${ESC}[10;10Hc`, "abc"],
    ["a title, ended by BEL", `${ESC}]0;evil\u0007ok`, "ok"],
    ["a title, ended by ST", `${ESC}]0;evil${ESC}\\ok`, "ok"],
    ["a clipboard write", `${ESC}]52;c;ZXZpbA==\u0007ok`, "ok"],
    ["a hyperlink", `${ESC}]8;;http://evil\u0007text${ESC}]8;;\u0007`, "text"],
    ["a device control string", `${ESC}P+q544e${ESC}\\ok`, "ok"],
    ["a reset", `${ESC}cok`, "ok"],
    ["a character set", `${ESC}(0ok`, "ok"],
    ["8-bit sequences", "\u009b31mred\u009d0;evil\u009cok", "redok"],
  ])("has lost %s", (_what, text, safe) => {
    expect(sanitizeLine(text)).toBe(safe);
  });

  test.each([
    ["a lone escape", `a${ESC}`, "a␛"],
    [
      "an unterminated control string, with what it would have swallowed",
      `${ESC}]0;evil\nnext`,
      "0;evil␊next",
    ],
    ["an unterminated sequence", `${ESC}[31`, "31"],
    ["line ends and tabs", "a\r\nb\tc", "a␍␊b␉c"],
    ["NUL, BEL, backspace, DEL", "\0\u0007\b\u007f", "␀␇␈␡"],
    ["an 8-bit control", "a\u0085b", "a<U+0085>b"],
    ["a bidirectional override", "safe\u202Etxt.exe", "safe<U+202E>txt.exe"],
    ["an isolate", "\u2066a\u2069", "<U+2066>a<U+2069>"],
    ["a line separator", "a\u2028b", "a<U+2028>b"],
    ["zero-width space and byte-order mark", "a\u200bb\ufeffc", "a<U+200B>b<U+FEFF>c"],
    ["tag characters", "a\u{e0041}b", "a<U+E0041>b"],
    ["a lone surrogate", "a\ud800b", "a\ufffdb"],
  ])("shows %s", (_what, text, safe) => {
    expect(sanitizeLine(text)).toBe(safe);
  });

  test("keeps ordinary text of any script", () => {
    const text = "naïve Ελληνικά العربية עברית हिन्दी 漢字 👩‍👩‍👧 नमस्‍ते 100 %";
    expect(sanitizeLine(text)).toBe(text);
  });

  test("contains no sequence even if one was nested in another", () => {
    expect(sanitizeLine(`${ESC}${ESC}[m[31mred`)).not.toContain(ESC);
  });

  test("never contains a control character", () => {
    const nasty = fc.constantFrom(
      ESC,
      "[",
      "]",
      "P",
      "\\",
      "\u0007",
      "\u009b",
      "\u009c",
      "\u009d",
      "0",
      ";",
      "m",
      "\n",
      "\u202e",
      "a",
    );
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: nasty }), fc.string({ unit: "binary" })), (text) => {
        expect(sanitizeLine(text)).not.toMatch(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069\u2028\u2029]/u);
        expect(sanitizeText(text)).not.toMatch(
          /(?![\n\t])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069\u2028\u2029]/u,
        );
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test("takes linear time", () => {
    for (const unit of [ESC, `${ESC}]`, `${ESC}[`, "\u009d", `${ESC}[0;`, `${ESC}P `]) {
      const began = performance.now();
      sanitizeLine(unit.repeat(200_000));
      expect(performance.now() - began).toBeLessThan(scaled(1500));
    }
  });
});

test("sanitized text keeps its lines and tabs, and a lone carriage return cannot overwrite a line", () => {
  expect(sanitizeText(`a\r\nb\n\t${ESC}[1mc${ESC}[0m\rd`)).toBe("a\nb\n\tc␍d");
});
