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

const character = (text: string): Key => ({ kind: "character", character: text });
const cursor = (letter: string): Key => ({ kind: "letter", letter, cursor: true });
const letter = (text: string): Key => ({ kind: "letter", letter: text, cursor: false });
const number = (value: number): Key => ({ kind: "number", number: value });
const keypad = (text: string, applicationLetter: string): Key => ({
  kind: "keypad",
  character: text,
  letter: applicationLetter,
});

/** As they are listed to people. */
const keys: Readonly<Record<string, Key>> = {
  Enter: character("\r"),
  Escape: character("\u001b"),
  Space: character(" "),
  Tab: { kind: "tab" },
  BSpace: { kind: "backspace" },
  Up: cursor("A"),
  Down: cursor("B"),
  Right: cursor("C"),
  Left: cursor("D"),
  Home: cursor("H"),
  End: cursor("F"),
  Insert: number(2),
  Delete: number(3),
  PageUp: number(5),
  PageDown: number(6),
  F1: letter("P"),
  F2: letter("Q"),
  F3: letter("R"),
  F4: letter("S"),
  F5: number(15),
  F6: number(17),
  F7: number(18),
  F8: number(19),
  F9: number(20),
  F10: number(21),
  F11: number(23),
  F12: number(24),
  ...Object.fromEntries(
    Array.from("0123456789", (digit, index) => [`KP${digit}`, keypad(digit, "pqrstuvwxy".charAt(index))]),
  ),
  "KP*": keypad("*", "j"),
  "KP+": keypad("+", "k"),
  "KP-": keypad("-", "m"),
  "KP.": keypad(".", "n"),
  "KP/": keypad("/", "o"),
  KPEnter: keypad("\r", "M"),
};

/** Other names people and tmux use. */
const aliases: Readonly<Record<string, string>> = {
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

export const keyNames: readonly string[] = [...Object.keys(keys), ...Object.keys(aliases)];

const byName: ReadonlyMap<string, Key> = new Map(
  keyNames.flatMap((name) => {
    const key = keys[aliases[name] ?? name];
    return key === undefined ? [] : [[name.toLowerCase(), key] as const];
  }),
);

/** Null: no such key. A single character is a key of its own; it may not be a control character. */
export function keyNamed(name: string): Key | null {
  const known = byName.get(name.toLowerCase());
  if (known !== undefined) return known;
  return /^[^\p{Cc}\p{Cs}]$/u.test(name) ? character(name) : null;
}
