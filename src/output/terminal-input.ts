import { BadInput } from "../errors.js";
import { type Key, findKey, keyNames } from "./key-names.js";
import { didYouMean } from "../text/did-you-mean.js";
import { sanitizeLine } from "../text/sanitize.js";
import type { TerminalModes } from "./terminal-modes.js";

interface Modifiers {
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly shift: boolean;
}

const ESC = "\u001b";
const CSI = `${ESC}[`;
const SS3 = `${ESC}O`;

/**
 * Keys as a terminal in these modes sends them: `C-c`, `M-x`, `S-Tab`, `C-Up`, `F5`, `^D`, a single character,
 * `hex:1b5b41`, `literal:any text`. A word that is none of these is refused: sent as text, a misspelt
 * key would be typed into whatever the program is asking. All words are read before any is encoded.
 */
export function encodeKeys(words: readonly string[], modes: TerminalModes): Uint8Array {
  return Buffer.concat(words.map((word) => encodeKeyWord(word, modes)));
}

/** Text as it is typed: nothing in it is a name, and nothing is added. */
export function encodeLiteral(text: string): Uint8Array {
  return Buffer.from(text, "utf8");
}

function encodeKeyWord(word: string, modes: TerminalModes): Uint8Array {
  if (word.startsWith("literal:")) return encodeLiteral(word.slice("literal:".length));
  if (word.startsWith("hex:")) return encodeHex(word);
  const { modifiers, name } = parseModifiers(word);
  const key = findKey(name);
  if (key === null) throw unknownKeyError(word, name);
  const sent = encodeKey(key, modifiers, modes);
  if (sent === null)
    throw new BadInput(
      "keys",
      `terminals have no code for ${quoteWord(word)}: without the modifier it is ${quoteWord(name)}; to send certain bytes, write hex:…`,
    );
  return Buffer.from(sent, "utf8");
}

function encodeHex(word: string): Uint8Array {
  const digits = word.slice("hex:".length);
  if (!/^(?:[0-9a-f]{2})+$/i.test(digits))
    throw new BadInput(
      "keys",
      `${quoteWord(word)}: hex: takes pairs of hexadecimal digits, as in hex:1b5b41`,
    );
  return Buffer.from(digits, "hex");
}

function parseModifiers(word: string): { modifiers: Modifiers; name: string } {
  if (/^\^./su.test(word))
    return { modifiers: { ctrl: true, meta: false, shift: false }, name: word.slice(1) };
  const found = new Set<string>();
  let name = word;
  // A modifier needs something to modify: `C--` is Ctrl and minus.
  for (let match = MODIFIER.exec(name); match !== null; match = MODIFIER.exec(name)) {
    const modifier = (match[1] ?? "").toUpperCase();
    if (found.has(modifier)) throw unknownKeyError(word, name);
    found.add(modifier);
    name = name.slice(2);
  }
  return { modifiers: { ctrl: found.has("C"), meta: found.has("M"), shift: found.has("S") }, name };
}

const MODIFIER = /^([CMS])-(?=.)/isu;

/** Null: a terminal has no such combination. */
function encodeKey(key: Key, modifiers: Modifiers, modes: TerminalModes): string | null {
  const { ctrl, meta, shift } = modifiers;
  const plain = !ctrl && !meta && !shift;
  const parameter = 1 + (shift ? 1 : 0) + (meta ? 2 : 0) + (ctrl ? 4 : 0);
  const afterEscape = (text: string): string => (meta ? ESC + text : text);
  switch (key.kind) {
    case "letter": {
      if (!plain) return `${CSI}1;${parameter}${key.letter}`;
      return (key.cursor && !modes.applicationCursor ? CSI : SS3) + key.letter;
    }
    case "number":
      return plain ? `${CSI}${key.number}~` : `${CSI}${key.number};${parameter}~`;
    case "keypad":
      if (ctrl || shift) return null;
      return afterEscape(modes.applicationKeypad ? SS3 + key.letter : key.character);
    case "tab":
      if (ctrl) return null;
      return afterEscape(shift ? `${CSI}Z` : "\t");
    case "backspace":
      // DEL is what terminals send for it today; Ctrl makes it the other one.
      return shift ? null : afterEscape(ctrl ? "\b" : "\u007f");
    case "character": {
      if (shift) return null;
      const sent = ctrl ? controlCode(key.character) : key.character;
      return sent === null ? null : afterEscape(sent);
    }
  }
}

/** What Ctrl makes of a character: the columns of ASCII, and what xterm does with digits and the slash. */
function controlCode(character: string): string | null {
  if (/^[@-_a-z]$/.test(character)) return String.fromCharCode(character.charCodeAt(0) & 0x1f);
  return FURTHER_CONTROLS[character] ?? null;
}

const FURTHER_CONTROLS: Readonly<Record<string, string>> = {
  " ": "\0",
  "2": "\0",
  "3": "\u001b",
  "4": "\u001c",
  "5": "\u001d",
  "6": "\u001e",
  "7": "\u001f",
  "/": "\u001f",
  "8": "\u007f",
  "?": "\u007f",
};

function unknownKeyError(word: string, name: string): BadInput {
  const near = didYouMean(name, keyNames);
  const hint = near.length > 0 ? `did you mean ${near.join(", ")}?` : "keys are Enter, C-c, Up, F1, …;";
  return new BadInput("keys", `no key ${quoteWord(word)}: ${hint} To type it as text, write literal:…`);
}

/** A word as it may stand in a sentence. */
function quoteWord(word: string): string {
  const safe = sanitizeLine(word.slice(0, SHOWN_CHARS));
  return `"${safe}${word.length > SHOWN_CHARS ? "…" : ""}"`;
}

const SHOWN_CHARS = 40;
