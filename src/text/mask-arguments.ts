import { createHmac, randomBytes } from "node:crypto";
import {
  findSecretOptionValues,
  isSecretName,
  SecretOptionScanner,
  tokenPatterns,
  urlSignature,
} from "./redact.js";
import { escapeCharacter, unprintableCharacter } from "./unprintable-characters.js";

/**
 * Hides secrets in a command that a person is about to approve. Unlike redaction for records, a mask must not hide code:
 * it covers at most one word, never a character that separates or begins words in a shell, and only a value that cannot
 * be a program, a path or an option. Text that may be something else than a secret stays visible.
 */

/** Characters that a mask may cover. None of them ends a word, a command or a quotation. */
const WORD_CHARACTER = String.raw`[\w.+/=:@%,~-]`;
const assignment = new RegExp(
  String.raw`(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]{0,80})=["']?(${WORD_CHARACTER}+)`,
  "dg",
);
const pair = new RegExp(
  String.raw`(?<![\w-])([A-Za-z][\w-]{0,80})["']?[ \t]*:[ \t]*["']?(?:(?:basic|bearer|digest|token|negotiate)[ \t]+)?(${WORD_CHARACTER}+)`,
  "dgi",
);
const optionPair = new RegExp(
  String.raw`(?<![\w-])(--?[A-Za-z][\w-]{1,80})[ \t]+["']?(?!-)(${WORD_CHARACTER}+)`,
  "dg",
);
const bearer = new RegExp(String.raw`\b(bearer)[ \t]+(${WORD_CHARACTER}+)`, "dgi");
const urlPassword = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[\w.+%~-]{0,200}:([\w.+=%,~-]+)@/dgi;
const credentialHeader = /^(?:(?:proxy-)?authorization|(?:set-)?cookie)$/i;

type Span = readonly [start: number, end: number];

/** Positions of the secrets in `text`; in order, not overlapping. */
function secretSpans(text: string, secretFrom: number | null): Span[] {
  const found: Span[] = [];
  const opaque = (span: Span | undefined): void => {
    if (span !== undefined && isOpaque(text.slice(...span))) found.push(span);
  };
  if (text.length >= MIN_TOKEN_CHARS)
    for (const { 0: token, index } of text.matchAll(tokenPatterns))
      if (!endsInPath.test(text.slice(Math.max(0, index - PATH_CHARS), index)))
        found.push([index, index + token.length]);
  // A command may have a hundred thousand short words: a word without a name in it cannot be a named secret.
  if (!/[\s=:]/.test(text)) {
    if (secretFrom !== null && isOneWord.test(text.slice(secretFrom))) opaque([secretFrom, text.length]);
    return mergeSpans(found);
  }
  for (const { 0: all, 1: name = "", index } of text.matchAll(urlSignature))
    opaque([index + name.length, index + all.length]);
  for (const { indices } of text.matchAll(urlPassword))
    if (indices?.[1] !== undefined) found.push(indices[1]);
  for (const pattern of [assignment, pair, optionPair])
    for (const { 1: name = "", indices } of text.matchAll(pattern))
      if (isSecretName(name) || credentialHeader.test(name)) opaque(indices?.[2]);
  for (const { indices } of text.matchAll(bearer)) opaque(indices?.[2]);
  const values: Span[] = secretFrom === null ? [] : [[secretFrom, text.length]];
  for (const [start, end] of [...values, ...findSecretOptionValues(text)])
    if (isOneWord.test(text.slice(start, end))) opaque([start, end]);
  return mergeSpans(found);
}

/** The shortest token that is known by its shape. */
const MIN_TOKEN_CHARS = 8;
const isOneWord = new RegExp(`^${WORD_CHARACTER}+$`);
/** The shortest value that is masked: a shorter one is more likely an ordinary word. */
const MIN_OPAQUE_CHARS = 6;
/** A value with characters of paths and addresses must be as long and as mixed as a random one. */
const MIN_RANDOM_CHARS = 20;

/** How far back the start of a path is searched, because a megabyte may be full of token-like text. */
const PATH_CHARS = 1_024;
/** Matches if the following text is part of a file path. The path of a URL does not count. */
const endsInPath = /(?:^|[^\w.+/@%,~:-])(?:~[\w.-]*|\.{1,2})?\/(?!\/)[\w.+/@%,~-]*$/;

/** Lower-case letters alone may name a program or an option, and a value with a slash or a dot a file. */
function isOpaque(value: string): boolean {
  if (/^[-./~]/.test(value)) return false;
  if (value.length < MIN_OPAQUE_CHARS || !/[0-9A-Z]/.test(value)) return false;
  if (!/[./:@,~]/.test(value)) return true;
  return (
    value.length >= MIN_RANDOM_CHARS && /[0-9]/.test(value) && /[a-z]/.test(value) && /[A-Z]/.test(value)
  );
}

function mergeSpans(spans: readonly Span[]): Span[] {
  const result: [number, number][] = [];
  for (const [start, end] of [...spans].sort(([a], [b]) => a - b)) {
    const last = result.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else result.push([start, end]);
  }
  return result;
}

/** Random key of this process, so that a fingerprint distinguishes secrets on the screen but does not help to guess one. */
const fingerprintKey = randomBytes(32);

export function keyedFingerprint(secret: string): string {
  return createHmac("sha256", fingerprintKey).update(secret, "utf16le").digest("hex");
}

const FINGERPRINT_CHARS = 12;

function maskText(secret: string): string {
  return `«secret: ${secret.length} characters, #${keyedFingerprint(secret).slice(0, FINGERPRINT_CHARS)}»`;
}

/** Alphabets with letters that look like Latin ones. Beside Latin letters in one word they are shown as escapes. */
const LOOK_ALIKE =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Coptic}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}\u{1d400}-\u{1d7ff}]/gu;

/** Characters that look like shell syntax or a path separator but are not. */
const LOOKS_LIKE_SYNTAX =
  /[\u01c0\u01c3\u02b9\u02bb-\u02bd\u02d7\u037e\u1fef\u2010\u2011\u2024\u2044\u2212\u2215-\u2217\u2223\u2236\u29f5\u29f8\ua789\ua78a\ufe50-\ufe6b\uff01-\uff5e]/gu;
/** Marks that change how an ASCII character looks, or the quotation mark before the text. */
const MARKED = /(?<=^|[ -~])\p{M}+/gu;

export interface MaskedWord {
  /** Quoted for a shell, on one line; every invisible character as an escape. Different texts are never shown alike. */
  readonly text: string;
  /** How many secrets are masked in it. */
  readonly masked: number;
}

/** `secretFrom`: offset at which the value of an option that takes a secret begins. */
export function maskWord(word: string, { reveal = false, secretFrom = null }: MaskOptions = {}): MaskedWord {
  const spans = reveal ? [] : secretSpans(word, secretFrom);
  const literals: string[] = [];
  let end = 0;
  for (const [from, to] of spans) {
    literals.push(word.slice(end, from));
    end = to;
  }
  literals.push(word.slice(end));
  if (spans.length === 0 && /^[\w@%+=:,./-]+$/.test(word)) return { text: word, masked: 0 };
  const escaped = literals.some(
    (literal) => literal.search(UNPRINTABLE) >= 0 || literal !== escapeHidden(literal),
  );
  const shown = literals.map((literal) =>
    escaped
      ? escapeHidden(literal.replaceAll(/[\\']/g, String.raw`\$&`))
      : literal.replaceAll("'", String.raw`'\''`),
  );
  const body = shown.reduce((text, literal, at) => {
    const span = spans[at - 1];
    return `${text}${span === undefined ? "" : maskText(word.slice(...span))}${literal}`;
  }, "");
  return { text: `${escaped ? "$" : ""}'${body}'`, masked: spans.length };
}

interface MaskOptions {
  /** Mask nothing. */
  readonly reveal?: boolean;
  readonly secretFrom?: number | null;
}

/** The quotation marks of a mask are escaped in a literal: no text can look like a mask. */
const UNPRINTABLE = new RegExp(`${unprintableCharacter.source}|[«»]`, "gu");

function escapeHidden(literal: string): string {
  const visible = literal
    .replaceAll(UNPRINTABLE, escapeCharacter)
    .replaceAll(LOOKS_LIKE_SYNTAX, escapeCharacter)
    .replaceAll(MARKED, (marks) => Array.from(marks, escapeCharacter).join(""));
  if (visible.search(LOOK_ALIKE) < 0) return visible;
  return visible.replaceAll(/[\p{L}\p{M}\p{N}_-]+/gu, (letters) =>
    /[A-Za-z]/.test(letters) ? letters.replaceAll(LOOK_ALIKE, escapeCharacter) : letters,
  );
}

/** For file names: the program or a directory. They are shown unchanged, even if they look like secrets. */
export const UNMASKED: MaskOptions = { reveal: true };

/** Masks each word of a command separately. */
export function* maskArguments(argv: readonly string[], options: MaskOptions = {}): Generator<MaskedWord> {
  const scanner = new SecretOptionScanner();
  for (const [at, word] of argv.entries()) {
    if (at === 0) {
      scanner.next(word);
      yield maskWord(word, UNMASKED);
      continue;
    }
    const secretFrom = scanner.next(word) ?? (isNamedValue(argv[at - 1], word) ? 0 : null);
    yield maskWord(word, { ...options, secretFrom });
  }
}

/** `--password x`. */
function isNamedValue(option: string | undefined, word: string): boolean {
  return (
    option !== undefined &&
    /^--?[A-Za-z][^=]+$/.test(option) &&
    !word.startsWith("--") &&
    isSecretName(option)
  );
}
