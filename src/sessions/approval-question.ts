import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import {
  keyedFingerprint,
  maskArguments,
  type MaskedWord,
  maskWord,
  UNMASKED,
} from "../text/mask-arguments.js";
import { isSecretName } from "../text/redact.js";
import { firstChars } from "../text/truncate.js";

/**
 * A whole question to the operator: every text that decides what happens if it is allowed, each with a label. It is kept
 * in memory while the question waits and is never stored, because it may contain secrets.
 */
export interface ApprovalQuestion {
  /** Covers all labels and texts, keyed with a key of this process. An answer with this digest answers only this question. */
  readonly digest: string;
  /** The command or title in one line, for a list; bounded. */
  readonly summary: string;
  /** True if the summary is the whole question: it is not cut, and there are no variables and no input. Masks are visible as such. */
  readonly whole: boolean;
  /** Characters of the question that are kept in memory. */
  readonly chars: number;
  parts(options?: { readonly reveal?: boolean }): Iterable<QuestionPart>;
}

/** One labelled text of a question. Labels: `program`, `argv[0]`, `cwd`, `env NAME`, `unset NAME`, `stdin`, … */
export interface QuestionPart {
  readonly label: string;
  /** Quoted for a shell, with secrets masked. A long text is split into several parts. */
  readonly text: string;
  /** Note for the operator; null: none. */
  readonly note: string | null;
  /** The text continues in the next part. */
  readonly continues: boolean;
  /** How many secrets are masked in the text, counted in its first piece. */
  readonly masked: number;
}

/** A command that a session wants to execute, exactly as it would be executed. */
export interface CommandToApprove {
  /** After symbolic links were resolved. */
  readonly executable: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: EnvironmentDifference;
  readonly stdin: RequestedStdin;
}

/** How the command's environment differs from the one given by the operator: the gateway's, or the clean environment. */
interface EnvironmentDifference {
  /** Added or changed. */
  readonly set: Readonly<Record<string, string>>;
  /** Variables given by the operator that the command does not get. */
  readonly unset: readonly string[];
  /** Names in `set` that the session's list of allowed variables does not have. */
  readonly unlisted: readonly string[];
}

/** `pipe` and `terminal`: the caller can send input later, which is not part of the question. */
export type RequestedStdin =
  | { readonly kind: "none" | "pipe" | "terminal" }
  | { readonly kind: "text"; readonly text: string };

export const NO_STDIN: RequestedStdin = { kind: "none" };

/** Holdfast sets these itself on every run, whatever the caller says. */
const SET_BY_HOLDFAST: ReadonlySet<string> = new Set([
  "HOLDFAST_LEASE_ID",
  "HOLDFAST_GATEWAY_INSTANCE_ID",
  "HOLDFAST_RUN_ID",
  "HOLDFAST_SESSION_KEY",
  "HOLDFAST_TOKEN",
]);

export function diffEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  base: Readonly<Record<string, string | undefined>> = process.env,
): EnvironmentDifference {
  const changed = Object.entries(env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && entry[1] !== ownValue(base, entry[0]) && !SET_BY_HOLDFAST.has(entry[0]),
  );
  const unset = Object.keys(base).filter(
    (name) => ownValue(env, name) === undefined && !SET_BY_HOLDFAST.has(name),
  );
  return { set: Object.fromEntries(changed.sort(compareByName)), unset: unset.sort(), unlisted: [] };
}

function ownValue(env: Readonly<Record<string, string | undefined>>, name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}

function compareByName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}

const LATER_INPUT_NOTE = "input can be sent to it later, which is not part of this question";

/** The question about a command. */
export function questionAboutCommand(command: CommandToApprove): ApprovalQuestion {
  const { executable, argv, cwd, env, stdin } = command;
  const plain = stdin.kind === "none" && Object.keys(env.set).length + env.unset.length === 0;
  return {
    digest: questionDigest([executable, argv, cwd, env, stdin]),
    chars: argv.reduce((sum, word) => sum + word.length, 0),
    ...summarize(argv, plain),
    *parts(options) {
      yield* splitIntoParts("program", maskWord(executable, UNMASKED));
      let at = 0;
      for (const word of maskArguments(argv, options)) yield* splitIntoParts(`argv[${at++}]`, word);
      yield* splitIntoParts("cwd", maskWord(cwd, UNMASKED));
      const unlisted = new Set(env.unlisted);
      for (const [name, value] of Object.entries(env.set)) {
        const note = unlisted.has(name) ? "not in the session's list of allowed variables" : null;
        yield* splitIntoParts(`env ${formatName(name)}`, showVariable(name, value, options), note);
      }
      for (const name of env.unset)
        yield* splitIntoParts(`unset ${formatName(name)}`, { text: "", masked: 0 });
      if (stdin.kind === "text") {
        const bytes = Buffer.byteLength(stdin.text);
        yield* splitIntoParts("stdin", maskWord(stdin.text, options), `${bytes} bytes, then end of input`);
      } else if (stdin.kind !== "none")
        yield* splitIntoParts("stdin", { text: `(${stdin.kind})`, masked: 0 }, LATER_INPUT_NOTE);
    },
  };
}

/** A text of a question, under its label. */
export type LabelledText = readonly [label: string, text: string];

/** The question about anything but a command: its title and all further details. */
export function questionAboutText(title: LabelledText, others: readonly LabelledText[]): ApprovalQuestion {
  const texts = [title, ...others];
  const { summary, whole } = summarize([title[1]], others.length === 0, ([text = ""]) => [maskWord(text)]);
  return {
    digest: questionDigest(texts),
    chars: texts.reduce((sum, [label, text]) => sum + label.length + text.length, 0),
    // A title is prose: it is quoted only if it contains invisible characters.
    summary: whole && !summary.startsWith("$") ? title[1] : summary,
    whole: whole && !summary.startsWith("$"),
    *parts(options) {
      for (const [label, text] of texts) yield* splitIntoParts(label, maskWord(text, options));
    },
  };
}

/** A question of which only the title is known: the details are not stored, because they may contain secrets. */
export function questionAskedBeforeRestart(title: string): ApprovalQuestion {
  const note =
    "asked before the gateway was restarted: only the first 16384 characters of the title were kept";
  return questionAboutText(["title", title], [["note", note]]);
}

/** The texts inside a JSON value, each labelled with its path; other values as JSON. */
export function* labelTexts(label: string, value: unknown): Generator<LabelledText, void, undefined> {
  if (typeof value === "string") yield [label, value];
  else if (typeof value !== "object" || value === null || Object.keys(value).length === 0)
    yield [`${label} (JSON)`, JSON.stringify(value)];
  else
    for (const [name, inner] of Object.entries(value))
      yield* labelTexts(Array.isArray(value) ? `${label}[${name}]` : `${label}.${formatName(name)}`, inner);
}

function questionDigest(parts: unknown): string {
  return keyedFingerprint(JSON.stringify(parts));
}

function formatName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : maskWord(name, { reveal: true }).text;
}

/** The name says whether the value is a secret. */
function showVariable(name: string, value: string, options: { readonly reveal?: boolean } = {}): MaskedWord {
  return maskWord(value, { ...options, secretFrom: isSecretName(name) ? 0 : null });
}

/** Reads only as much of each word as fits into the line, because it is computed for every question, however long. */
function summarize(
  words: readonly string[],
  complete: boolean,
  show: (words: readonly string[]) => Iterable<MaskedWord> = maskArguments,
): Pick<ApprovalQuestion, "summary" | "whole"> {
  const most = defaults.displayCommandChars;
  const some = words.slice(0, most).map((word) => firstChars(word, 2 * most));
  let line = "";
  for (const { text } of show(some)) {
    line += (line === "" ? "" : " ") + text;
    if (line.length > most) break;
  }
  const cut = line.length > most || words.some((word, at) => word !== some[at]);
  return {
    summary: cut ? `${firstChars(line, most)}… (not shown whole)` : line,
    whole: complete && !cut,
  };
}

function* splitIntoParts(
  label: string,
  { text, masked }: MaskedWord,
  note: string | null = null,
): Generator<QuestionPart> {
  for (let rest = text, first = true; ; first = false) {
    const piece = firstChars(rest, defaults.questionPieceChars);
    const continues = piece.length < rest.length;
    yield { label, text: piece, note: first ? note : null, continues, masked: first ? masked : 0 };
    if (!continues) return;
    rest = rest.slice(piece.length);
  }
}

export interface QuestionHead {
  /** The summary shows the whole question; otherwise its pages do. */
  readonly whole: boolean;
  /** To be sent with the answer. Null unless `whole`: then it is on the last page of the question. */
  readonly digest: string | null;
}

export function questionHead({ whole, digest }: ApprovalQuestion): QuestionHead {
  return { whole, digest: whole ? digest : null };
}

/** Throws unless the answer belongs to this question and the whole question was shown. */
export function assertAnswersQuestion(
  question: ApprovalQuestion,
  verdict: "allow" | "deny",
  digest: string | undefined,
  howToSee: string,
): void {
  if (digest === undefined && verdict === "allow" && !question.whole)
    throw new BadInput(
      "digest",
      `the list does not show the whole question: read it with \`${howToSee}\` and answer with the digest at its end; nothing was decided`,
    );
  if (digest !== undefined && digest !== question.digest)
    throw new BadInput(
      "digest",
      `the digest does not belong to this question: read it with \`${howToSee}\`; nothing was decided`,
    );
}
