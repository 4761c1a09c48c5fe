import { BadInput } from "../errors.js";
import { didYouMean } from "../text/did-you-mean.js";
import { sanitizeLine } from "../text/sanitize.js";

/** Terminal modes that the program has set, as far as they change what keys and pastes send. */
export interface TerminalModes {
  /** DECCKM: cursor keys send SS3 instead of CSI. */
  readonly applicationCursor: boolean;
  /** DECKPAM: the keypad sends sequences instead of its characters. */
  readonly applicationKeypad: boolean;
  readonly bracketedPaste: boolean;
  /** The program wants focus events and mouse events. */
  readonly focusEvents: boolean;
  readonly mouse: boolean;
}

/** How a key is encoded, as in xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html) and tmux. */
type Key =
  /** One character, which Ctrl turns into a control code if there is one. */
  | { readonly kind: "character"; readonly character: string }
  /** CSI or SS3 and a letter; CSI 1;m and the letter with modifiers. `cursor`: SS3 only in application mode. */
  | { readonly kind: "letter"; readonly letter: string; readonly cursor: boolean }
  /** CSI number ~, or CSI number;m ~. */
  | { readonly kind: "number"; readonly number: number }
  /** A keypad key: its character, or SS3 and a letter in application mode. */
  | { readonly kind: "keypad"; readonly character: string; readonly letter: string }
  | { readonly kind: "tab" }
  | { readonly kind: "backspace" };

const characterKey = (text: string): Key => ({ kind: "character", character: text });
const cursorKey = (letter: string): Key => ({ kind: "letter", letter, cursor: true });
const letterKey = (text: string): Key => ({ kind: "letter", letter: text, cursor: false });
const numberKey = (value: number): Key => ({ kind: "number", number: value });
const keypadKey = (text: string, applicationLetter: string): Key => ({
  kind: "keypad",
  character: text,
  letter: applicationLetter,
});

/** In the order in which they are listed to users. */
const keysByName: Readonly<Record<string, Key>> = {
  Enter: characterKey("\r"),
  Escape: characterKey("\u001b"),
  Space: characterKey(" "),
  Tab: { kind: "tab" },
  BSpace: { kind: "backspace" },
  Up: cursorKey("A"),
  Down: cursorKey("B"),
  Right: cursorKey("C"),
  Left: cursorKey("D"),
  Home: cursorKey("H"),
  End: cursorKey("F"),
  Insert: numberKey(2),
  Delete: numberKey(3),
  PageUp: numberKey(5),
  PageDown: numberKey(6),
  F1: letterKey("P"),
  F2: letterKey("Q"),
  F3: letterKey("R"),
  F4: letterKey("S"),
  F5: numberKey(15),
  F6: numberKey(17),
  F7: numberKey(18),
  F8: numberKey(19),
  F9: numberKey(20),
  F10: numberKey(21),
  F11: numberKey(23),
  F12: numberKey(24),
  ...Object.fromEntries(
    Array.from("0123456789", (digit, index) => [`KP${digit}`, keypadKey(digit, "pqrstuvwxy".charAt(index))]),
  ),
  "KP*": keypadKey("*", "j"),
  "KP+": keypadKey("+", "k"),
  "KP-": keypadKey("-", "m"),
  "KP.": keypadKey(".", "n"),
  "KP/": keypadKey("/", "o"),
  KPEnter: keypadKey("\r", "M"),
};

/** Other names that users and tmux use. */
const keyAliases: Readonly<Record<string, string>> = {
  Return: "Enter",
  Esc: "Escape",
  Backspace: "BSpace",
  Ins: "Insert",
  IC: "Insert",
  Del: "Delete",
  DC: "Delete",
  PgUp: "PageUp",
  PPage: "PageUp",
  PgDn: "PageDown",
  NPage: "PageDown",
};

const keyNames: readonly string[] = [...Object.keys(keysByName), ...Object.keys(keyAliases)];

const keysByLowerCaseName: ReadonlyMap<string, Key> = new Map(
  keyNames.flatMap((name) => {
    const key = keysByName[keyAliases[name] ?? name];
    return key === undefined ? [] : [[name.toLowerCase(), key] as const];
  }),
);

/** Null if there is no such key. A single character is a key, unless it is a control character. */
function findKey(name: string): Key | null {
  const known = keysByLowerCaseName.get(name.toLowerCase());
  if (known !== undefined) return known;
  return /^[^\p{Cc}\p{Cs}]$/u.test(name) ? characterKey(name) : null;
}

interface Modifiers {
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly shift: boolean;
}

const ESC = "\u001b";
const CSI = `${ESC}[`;
const SS3 = `${ESC}O`;

/**
 * Encodes keys as a terminal in these modes sends them: `C-c`, `M-x`, `S-Tab`, `C-Up`, `F5`, `^D`, a single character,
 * `hex:1b5b41`, `literal:any text`. Other words are rejected, because a misspelt key sent as text would be typed into
 * the program. All words are checked before any is encoded.
 */
export function encodeKeys(words: readonly string[], modes: TerminalModes): Uint8Array {
  return Buffer.concat(words.map((word) => encodeKeyWord(word, modes)));
}

/** Encodes text as it is typed: no key names, nothing added. */
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
  // A modifier needs a key after it: `C--` is Ctrl and minus.
  for (let match = MODIFIER.exec(name); match !== null; match = MODIFIER.exec(name)) {
    const modifier = (match[1] ?? "").toUpperCase();
    if (found.has(modifier)) throw unknownKeyError(word, name);
    found.add(modifier);
    name = name.slice(2);
  }
  return { modifiers: { ctrl: found.has("C"), meta: found.has("M"), shift: found.has("S") }, name };
}

const MODIFIER = /^([CMS])-(?=.)/isu;

/** Null if terminals have no code for the combination. */
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
      // Terminals send DEL for backspace today, and BS with Ctrl.
      return shift ? null : afterEscape(ctrl ? "\b" : "\u007f");
    case "character": {
      if (shift) return null;
      const sent = ctrl ? controlCode(key.character) : key.character;
      return sent === null ? null : afterEscape(sent);
    }
  }
}

/** The control code of a character: the columns of ASCII, and xterm's codes for digits and the slash. */
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
  const hint =
    near.length > 0 ? `did you mean ${near.join(", ")}?` : "keys are Enter, C-c, Up, F1 and others.";
  return new BadInput("keys", `no key ${quoteWord(word)}: ${hint} To type it as text, write literal:…`);
}

/** Quotes a word for an error message. */
function quoteWord(word: string): string {
  const safe = sanitizeLine(word.slice(0, SHOWN_CHARS));
  return `"${safe}${word.length > SHOWN_CHARS ? "…" : ""}"`;
}

const SHOWN_CHARS = 40;

const PASTE_BEGIN = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/**
 * Encodes text as a terminal pastes it: lines end in CR like the Enter key, and paste markers are added if the program
 * asked for them.
 *
 * Control characters are replaced by pictures. An ESC could end the marked paste early (ESC [201~) and turn the rest
 * into commands, and ^C or ^D would act even without markers. Without markers a program takes each line as entered;
 * that is the caller's responsibility.
 */
export function encodePaste(text: string, modes: TerminalModes): Uint8Array {
  const body = text.replace(/\r\n|\n/g, "\r").replace(PASTE_CONTROLS, controlPicture);
  return Buffer.from(modes.bracketedPaste ? PASTE_BEGIN + body + PASTE_END : body, "utf8");
}

/** C0 except tab and CR, DEL, and C1, which contains the 8-bit CSI. */
const PASTE_CONTROLS = /[\0-\u0008\u000a-\u000c\u000e-\u001f\u007f-\u009f]/g;

function controlPicture(control: string): string {
  const code = control.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
}
