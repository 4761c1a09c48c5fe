import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BadInput } from "../../src/errors.js";
import {
  encodeKeys,
  encodeLiteral,
  encodePaste,
  type TerminalModes,
} from "../../src/terminal/encode-keys.js";
import { repetitions } from "../support/scale.js";

const ESC = "\u001b";
/** The modes of a terminal in its initial state. */
const defaultTerminalModes: TerminalModes = {
  applicationCursor: false,
  applicationKeypad: false,
  bracketedPaste: false,
  focusEvents: false,
  mouse: false,
};
const application = { ...defaultTerminalModes, applicationCursor: true, applicationKeypad: true };

function encodedKeys(words: readonly string[], modes = defaultTerminalModes): string {
  return Buffer.from(encodeKeys(words, modes)).toString("utf8");
}

function refusal(word: string): string {
  try {
    encodedKeys([word]);
  } catch (error) {
    expect(error).toBeInstanceOf(BadInput);
    return String(error);
  }
  throw new Error(`${word} was not refused`);
}

describe("a key is sent as a terminal sends it:", () => {
  test.each([
    ["C-c", "\u0003"],
    ["C-C", "\u0003"],
    ["c-c", "\u0003"],
    ["^C", "\u0003"],
    ["C-[", ESC],
    ["^[", ESC],
    ["C-\\", "\u001c"],
    ["C-]", "\u001d"],
    ["C-^", "\u001e"],
    ["C-_", "\u001f"],
    ["C-/", "\u001f"],
    ["C-?", "\u007f"],
    ["C-@", "\0"],
    ["C-Space", "\0"],
    ["C-h", "\b"],
    ["C-j", "\n"],
    ["M-x", `${ESC}x`],
    ["M-X", `${ESC}X`],
    ["M-é", `${ESC}é`],
    ["M--", `${ESC}-`],
    ["C-M-x", `${ESC}\u0018`],
    ["M-C-x", `${ESC}\u0018`],
    ["Enter", "\r"],
    ["M-Enter", `${ESC}\r`],
    ["return", "\r"],
    ["Tab", "\t"],
    ["S-Tab", `${ESC}[Z`],
    ["M-Tab", `${ESC}\t`],
    ["BSpace", "\u007f"],
    ["C-BSpace", "\b"],
    ["M-BSpace", `${ESC}\u007f`],
    ["Escape", ESC],
    ["Space", " "],
    ["M-Space", `${ESC} `],
    ["Up", `${ESC}[A`],
    ["Down", `${ESC}[B`],
    ["Right", `${ESC}[C`],
    ["Left", `${ESC}[D`],
    ["Home", `${ESC}[H`],
    ["End", `${ESC}[F`],
    ["S-Up", `${ESC}[1;2A`],
    ["M-Up", `${ESC}[1;3A`],
    ["C-Up", `${ESC}[1;5A`],
    ["C-M-S-Left", `${ESC}[1;8D`],
    ["Insert", `${ESC}[2~`],
    ["Delete", `${ESC}[3~`],
    ["PageUp", `${ESC}[5~`],
    ["PgDn", `${ESC}[6~`],
    ["C-Delete", `${ESC}[3;5~`],
    ["F1", `${ESC}OP`],
    ["F4", `${ESC}OS`],
    ["S-F1", `${ESC}[1;2P`],
    ["F5", `${ESC}[15~`],
    ["F6", `${ESC}[17~`],
    ["F10", `${ESC}[21~`],
    ["F11", `${ESC}[23~`],
    ["F12", `${ESC}[24~`],
    ["C-F12", `${ESC}[24;5~`],
    ["KP5", "5"],
    ["KPEnter", "\r"],
    ["KP+", "+"],
    ["a", "a"],
    ["-", "-"],
    ["^", "^"],
    ["😀", "😀"],
    ["hex:1b5b41", `${ESC}[A`],
    ["hex:C3A9", "é"],
    ["literal:Enter", "Enter"],
    ["literal:", ""],
    ["literal:C-c\n", "C-c\n"],
  ])("%s", (word, bytes) => {
    expect(encodedKeys([word])).toBe(bytes);
  });

  test.each([
    ["Up", `${ESC}OA`],
    ["Home", `${ESC}OH`],
    ["C-Up", `${ESC}[1;5A`],
    ["PageUp", `${ESC}[5~`],
    ["KP0", `${ESC}Op`],
    ["KP9", `${ESC}Oy`],
    ["KP*", `${ESC}Oj`],
    ["KPEnter", `${ESC}OM`],
    ["Enter", "\r"],
  ])("%s in application mode", (word, bytes) => {
    expect(encodedKeys([word], application)).toBe(bytes);
  });
});

test("keys are sent in the order they are given", () => {
  expect(encodedKeys(["literal:ls", "Space", "-", "l", "Enter", "C-d"])).toBe("ls -l\r\u0004");
});

test("any byte can be sent in hex", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
      expect(encodeKeys([`hex:${Buffer.from(bytes).toString("hex")}`], defaultTerminalModes)).toEqual(
        Buffer.from(bytes),
      );
    }),
  );
});

describe("a word that is not a key is refused with a suggestion:", () => {
  test.each([
    ["Entr", "Enter"],
    ["Etner", "Enter"],
    ["C-Entre", "Enter"],
    ["PageUpp", "PageUp"],
    ["Bspce", "BSpace"],
    ["Excape", "Escape"],
    ["F13", "F1"],
  ])("%s", (word, meant) => {
    const message = refusal(word);
    expect(message).toContain(`"${word}"`);
    expect(message).toContain(meant);
  });

  test.each([
    "",
    "hello",
    "ls -l",
    "C-",
    "C-C-c",
    "X-a",
    "C-xx",
    "\n",
    "\u001b",
    "a\u0301",
    "F0",
    "hex:",
    "hex:1",
    "hex:zz",
  ])("%j", (word) => {
    expect(refusal(word)).not.toBe("");
  });

  test.each(["C-é", "C-1", "S-a", "S-Enter", "C-Enter", "C-Tab", "C-KP5", "S-Space"])(
    "%s, for which terminals have no code",
    (word) => {
      expect(refusal(word)).toContain("no code");
    },
  );

  test("and none of the other words are sent", () => {
    expect(() => encodedKeys(["literal:rm", "Spce"])).toThrow(BadInput);
  });

  test("in a message that a hostile or endless word cannot break", () => {
    const message = refusal(`${ESC}]0;evil\u0007${"x".repeat(100_000)}`);
    expect(message).not.toMatch(/\p{Cc}/u);
    expect(message.length).toBeLessThan(300);
  });
});

test("a word is either a key or refused", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", minLength: 2 }), (word) => {
      fc.pre(!/^(hex:|literal:|\^|[cms]-)/i.test(word));
      const known = /^(enter|escape|up|down|tab|space|f\d+|kp.+|del|esc|ins|ic|dc|end|home|left)$/i.test(
        word,
      );
      if (!known && Array.from(word).length > 1) expect(() => encodedKeys([word])).toThrow(BadInput);
    }),
  );
});

test("literal text is sent unchanged", () => {
  expect(Buffer.from(encodeLiteral("C-c Enter é\t")).toString("utf8")).toBe("C-c Enter é\t");
});

const BEGIN = "\u001b[200~";
const END = "\u001b[201~";
const bracketed = { ...defaultTerminalModes, bracketedPaste: true };

function pasted(text: string, modes = defaultTerminalModes): string {
  return Buffer.from(encodePaste(text, modes)).toString("utf8");
}

test("a paste has markers only if the program asked for them", () => {
  expect(pasted("text")).toBe("text");
  expect(pasted("text", bracketed)).toBe(`${BEGIN}text${END}`);
});

test("pasted lines end like the Enter key", () => {
  expect(pasted("a\nb\r\nc\rd\n")).toBe("a\rb\rc\rd\r");
});

test("text of any script and tabs are pasted unchanged", () => {
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
    { numRuns: repetitions(100, 1000) },
  );
});
