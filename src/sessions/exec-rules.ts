import { basename } from "node:path";
import type { ExecEffect, ExecRule } from "../model/session.js";

/** The command that is about to be executed (see judge-exec.ts). */
export interface ResolvedCommand {
  /** The directory entry that is executed: absolute, the links of its directory resolved. */
  readonly executable: string;
  /** The file that it leads to, after symbolic links. */
  readonly file: string;
  /** How rules can name the program: by its file name only if it is found on the operator's PATH. */
  readonly foundBy: "on-path" | "by-path" | "relative";
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
 *     executable   /usr/bin/git   this path
 *                  /opt/tools/    everything below this directory
 *                  git            the program of this name on the operator's PATH
 *     calledAs     ls             the last part of argv[0]; `executable` then is the file after symbolic links: for one
 *                                 file that is many programs (busybox)
 *     args         status *       the words after argv[0]: `*` is any one word, a last `...` any number of words;
 *                  \*  \...       after a backslash a word stands for itself
 *     cwd          /work          this directory, or one below it
 *
 * `allow` and `ask` match narrowly: no rule names a program that was given by a relative path. `deny` matches widely: a
 * name matches every file of that name, and a path also matches the target of symbolic links.
 *
 * What is not allowed by a short list of rules is refused; what is forbidden by a list can usually be said in another
 * way (`git -C . push`, `sh -c …`). So `deny` guards against mistakes, and only `allow` with `deny` or `ask` for the rest guards.
 *
 * Every comparison is of whole words or prefixes: the time is at most rules × words.
 */
export function decideExec(
  rules: readonly ExecRule[],
  request: ResolvedCommand,
  otherwise: ExecEffect = DEFAULT_EFFECT,
): ExecDecision {
  for (const [at, rule] of rules.entries())
    if (matches(rule, request)) return { effect: rule.effect, rule: at };
  return { effect: otherwise, rule: null };
}

/** Whether the rule allows every program with any arguments. Through a shell that is everything, so nothing is judged. */
export function allowsEverything({ effect, executable, calledAs, args }: ExecRule): boolean {
  return effect === "allow" && executable === undefined && calledAs === undefined && args === undefined;
}

function matches(rule: ExecRule, request: ResolvedCommand): boolean {
  const { argv, cwd } = request;
  return (
    (rule.executable === undefined || isExecutable(rule, rule.executable, request)) &&
    (rule.calledAs === undefined || isCalled(rule, rule.calledAs, request)) &&
    (rule.cwd === undefined || isWithin(rule.cwd, cwd)) &&
    (rule.args === undefined || areArgs(rule.args, argv))
  );
}

function isExecutable(
  { effect, calledAs }: ExecRule,
  pattern: string,
  { executable, file, foundBy: found }: ResolvedCommand,
): boolean {
  if (effect === "deny") {
    const names = pattern.includes("/") ? [executable, file] : [basename(executable), basename(file)];
    return names.some((name) => isPath(pattern, name));
  }
  if (found === "relative") return false;
  if (!pattern.includes("/")) return found === "on-path" && pattern === basename(executable);
  return isPath(pattern, calledAs === undefined ? executable : file);
}

/** A name alone means the program of that name on the operator's PATH, here too. */
function isCalled(
  { effect, executable }: ExecRule,
  name: string,
  { argv, foundBy: found }: ResolvedCommand,
): boolean {
  if (name !== basename(argv[0] ?? "")) return false;
  return effect === "deny" || executable !== undefined || found === "on-path";
}

function isPath(pattern: string, path: string): boolean {
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
