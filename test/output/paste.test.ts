import fc from "fast-check";
import { expect, test } from "vitest";
import { encodePaste } from "../../src/output/paste.js";
import { defaultTerminalModes } from "../../src/output/terminal-modes.js";

const BEGIN = "\u001b[200~";
const END = "\u001b[201~";
const bracketed = { ...defaultTerminalModes, bracketedPaste: true };

function pasted(text: string, modes = defaultTerminalModes): string {
  return Buffer.from(encodePaste(text, modes)).toString("utf8");
}

test("a paste is marked as one only when the program asked for it", () => {
  expect(pasted("text")).toBe("text");
  expect(pasted("text", bracketed)).toBe(`${BEGIN}text${END}`);
});

test("lines end as the Enter key does, whatever they ended in", () => {
  expect(pasted("a\nb\r\nc\rd\n")).toBe("a\rb\rc\rd\r");
});

test("text of any script, and tabs, are pasted as they are", () => {
  const text = "\tnaïve Ελληνικά עברית 漢字 👩‍👩‍👧 \u200f";
  expect(pasted(text, bracketed)).toBe(`${BEGIN}${text}${END}`);
});

test.each([
  ["an end marker", `a${END}rm -rf /\n`],
  ["an 8-bit end marker", "a\u009b201~rm\n"],
  ["a marker inside a marker", `a\u001b[20${END}1~rm\n`],
  ["half a marker at the end", "a\u001b[20"],
])("%s in the text does not end the paste", (_what, text) => {
  const sent = pasted(text, bracketed);
  expect(sent.slice(BEGIN.length, -END.length)).not.toMatch(/[\u001b\u009b]/);
});

test("control characters are shown, not sent, with markers or without", () => {
  expect(pasted("a\u0003b\u0004\u001b[A\u007f")).toBe("a␃b␄␛[A␡");
});

test("nothing in a paste can act as a key, whatever the text", () => {
  const unit = fc.constantFrom(
    "\u001b",
    "[",
    "2",
    "0",
    "1",
    "~",
    "\u009b",
    "\n",
    "\r",
    "\u0003",
    "a",
    "\ud800",
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit }), fc.string({ unit: "binary" })), (text) => {
      const sent = pasted(text, bracketed);
      expect(sent.startsWith(BEGIN) && sent.endsWith(END)).toBe(true);
      expect(sent.slice(BEGIN.length, -END.length)).not.toMatch(/(?![\t\r])\p{Cc}/u);
      expect(pasted(text)).not.toMatch(/(?![\t\r])\p{Cc}/u);
    }),
    { numRuns: 1000 },
  );
});
