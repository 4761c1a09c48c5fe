/** How a key is sent; xterm's encodings (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html), which tmux speaks too. */
export type Key =
  /** One character, which Ctrl turns into a control code where there is one. */
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

/** As they are listed to people. */
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

/** Other names people and tmux use. */
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

export const keyNames: readonly string[] = [...Object.keys(keysByName), ...Object.keys(keyAliases)];

const keysByLowerCaseName: ReadonlyMap<string, Key> = new Map(
  keyNames.flatMap((name) => {
    const key = keysByName[keyAliases[name] ?? name];
    return key === undefined ? [] : [[name.toLowerCase(), key] as const];
  }),
);

/** Null: no such key. A single character is a key of its own; it may not be a control character. */
export function findKey(name: string): Key | null {
  const known = keysByLowerCaseName.get(name.toLowerCase());
  if (known !== undefined) return known;
  return /^[^\p{Cc}\p{Cs}]$/u.test(name) ? characterKey(name) : null;
}
