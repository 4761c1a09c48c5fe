import { basename } from "node:path";
import type { ExecEffect, ExecRule } from "../store/session-record.js";

/** What is about to be executed: the file itself, after symbolic links (see resolve-executable.ts), and how. */
export interface ExecRequest {
  readonly executable: string;
  readonly argv: readonly string[];
  readonly cwd: string;
}

export interface ExecDecision {
  readonly effect: ExecEffect;
  /** The position of the rule that decided; null: none matched. */
  readonly rule: number | null;
}

/** When no rule says anything, a person is asked. */
export const DEFAULT_EFFECT: ExecEffect = "ask";

/**
 * The first rule that matches decides. All its parts must match:
 *
 *     executable   /usr/bin/git   this file
 *                  /opt/tools/    everything below this directory
 *                  git            every file of this name, wherever it lies
 *     calledAs     ls             the last part of argv[0]: for one file that is many programs (busybox)
 *     args         status *       the words after argv[0]: `*` is any one word, a last `...` any number of words;
 *                  \*  \...       after a backslash a word stands for itself
 *     cwd          /work          this directory, or one below it
 *
 * What is not allowed by a short list of rules is refused; what is forbidden by a list can usually be said in another
 * way (`git -C . push`, `sh -c …`). So `deny` guards against mistakes, and only `allow` with `deny` or `ask` for the rest guards.
 *
 * Every comparison is of whole words or prefixes: the time is at most rules × words.
 */
export function decideExec(
  rules: readonly ExecRule[],
  request: ExecRequest,
  otherwise: ExecEffect = DEFAULT_EFFECT,
): ExecDecision {
  for (const [at, rule] of rules.entries())
    if (matches(rule, request)) return { effect: rule.effect, rule: at };
  return { effect: otherwise, rule: null };
}

function matches(rule: ExecRule, { executable, argv, cwd }: ExecRequest): boolean {
  return (
    (rule.executable === undefined || isExecutable(rule.executable, executable)) &&
    (rule.calledAs === undefined || rule.calledAs === basename(argv[0] ?? "")) &&
    (rule.cwd === undefined || isWithin(rule.cwd, cwd)) &&
    (rule.args === undefined || areArgs(rule.args, argv))
  );
}

function isExecutable(pattern: string, path: string): boolean {
  if (!pattern.includes("/")) return pattern === basename(path);
  return pattern.endsWith("/") ? path.startsWith(pattern) : pattern === path;
}

function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);
}

/** In place: a command may have a hundred thousand words, which are not copied for every rule. */
function areArgs(pattern: readonly string[], argv: readonly string[]): boolean {
  const more = pattern.at(-1) === "...";
  const fixed = more ? pattern.length - 1 : pattern.length;
  const given = argv.length - 1;
  if (more ? given < fixed : given !== fixed) return false;
  return pattern.every((each, at) => at === fixed || isWord(each, argv[at + 1] ?? ""));
}

function isWord(pattern: string, word: string): boolean {
  return pattern === "*" || (pattern.startsWith("\\") ? pattern.slice(1) : pattern) === word;
}
