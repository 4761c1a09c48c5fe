import { lstat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { ExecDenied } from "../errors.js";
import type { ExecRule } from "../model/exec/exec-rule.js";
import { isInjectionVariable } from "../supervisor/spawn/environment.js";
import { evaluateEnvironment, formatVariableNames, type RequestedEnvironment } from "./exec-environment.js";
import {
  type LocatedExecutable,
  locateExecutable,
  locateOnPath,
  resolveDirectory,
} from "./resolve-executable.js";
import { type ResolvedCommand, type ExecDecision, decideExec, allowsEverything } from "./match-exec-rules.js";

/** The requested command and its environment. */
export interface ExecPolicyRequest extends RequestedEnvironment {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  /** The operator's PATH: the gateway's own, or the one that the agent's entry sets. */
  readonly path: string | undefined;
}

/** The decision of the rules, and the command to execute if the rules or the operator allow it. */
export interface ExecEvaluation extends ExecDecision {
  /** Null: nothing is judged. The command is executed as its caller gave it. */
  readonly command: {
    /** The first word is the absolute path that was judged, so execution depends on no PATH and no working directory. */
    readonly argv: readonly string[];
    /** The whole environment. */
    readonly environment: Readonly<Record<string, string>>;
    /** Variables that are not listed; empty unless the operator is asked. */
    readonly unlisted: readonly string[];
  } | null;
  readonly request: ResolvedCommand;
}

/** Judges a command by a session's rules. Rejects with ExecDenied if not even the operator can allow it. */
export async function evaluateExec(
  rules: readonly ExecRule[],
  input: ExecPolicyRequest,
): Promise<ExecEvaluation> {
  const { argv, path } = input;
  const [name = ""] = argv;
  const cwd = resolve(input.cwd ?? process.cwd());
  if (process.platform === "win32") return evaluateOnWindows(rules, input, cwd);
  const onOperatorPath = await locateForRules(name, cwd, path);
  const { environment, unlisted } = evaluateEnvironment(input);
  const located = onOperatorPath ?? (await locateExecutable(name, { path: environment["PATH"], cwd }));
  if (located === null)
    throw new ExecDenied(`${name} is not an executable file, or the gateway cannot read its path`);
  const foundBy = await howFound(name, located, onOperatorPath, path);
  const request = { executable: located.entry, file: located.file, foundBy, argv, cwd };
  const decision = decideExec(await resolveRulePaths(rules, request), request);
  const rule = rules[decision.rule ?? -1];
  if (rule !== undefined && allowsEverything(rule)) {
    assertNoInjection(input);
    return { ...decision, request, command: null };
  }
  if (decision.effect === "deny") return { ...decision, request, command: null };
  if (onOperatorPath === null)
    throw new ExecDenied(
      `${name} is not on the gateway's PATH, on which rules look up programs; use its absolute path`,
    );
  if (decision.effect === "allow") await assertNotReplaceable(located);
  if (decision.effect === "allow" && unlisted.length > 0)
    throw new ExecDenied(
      `its environment has variables that are not listed: ${formatVariableNames(unlisted)}. Leave them out (--clear-env), or have the operator list them (environment.pass in the config)`,
    );
  const command = { argv: [located.entry, ...argv.slice(1)], environment, unlisted };
  return { ...decision, request, command };
}

/**
 * On Windows neither the file that a name leads to nor its writers are known here, so no rule on a program can be judged.
 * Only a first rule that allows everything does.
 */
function evaluateOnWindows(
  rules: readonly ExecRule[],
  input: ExecPolicyRequest,
  cwd: string,
): ExecEvaluation {
  const [first] = rules;
  const [name = ""] = input.argv;
  const request: ResolvedCommand = {
    executable: name,
    file: name,
    foundBy: "relative",
    argv: input.argv,
    cwd,
  };
  if (first === undefined || !allowsEverything(first) || first.cwd !== undefined)
    throw new ExecDenied(
      `${name} cannot be judged: on Windows exec rules can only allow every command, by a first rule with nothing but effect = "allow"`,
    );
  assertNoInjection(input);
  return { effect: "allow", rule: 0, request, command: null };
}

/** Finds the program by its path or on the operator's PATH; the caller's PATH is not used. */
function locateForRules(
  name: string,
  cwd: string,
  path: string | undefined,
): Promise<LocatedExecutable | null> {
  return name.includes("/") ? locateExecutable(name, { path: undefined, cwd }) : locateOnPath(name, path);
}

async function howFound(
  name: string,
  { entry }: LocatedExecutable,
  onOperatorPath: LocatedExecutable | null,
  path: string | undefined,
): Promise<ResolvedCommand["foundBy"]> {
  if (onOperatorPath === null || (name.includes("/") && !name.startsWith("/"))) return "relative";
  if (!name.includes("/")) return "on-path";
  return (await locateOnPath(basename(entry), path))?.entry === entry ? "on-path" : "by-path";
}

/** Resolves the symbolic links of the rules' directories, as in the paths they are compared with. */
async function resolveRulePaths(
  rules: readonly ExecRule[],
  { executable, file }: ResolvedCommand,
): Promise<readonly ExecRule[]> {
  const names = new Set([basename(executable), basename(file)]);
  return Promise.all(
    rules.map(async (rule) => {
      const path = rule.executable ?? "";
      if (!path.startsWith("/")) return rule;
      if (path.endsWith("/")) {
        const directory = await resolveDirectory(path);
        return directory === null ? rule : { ...rule, executable: directory === "/" ? "/" : `${directory}/` };
      }
      if (!names.has(basename(path))) return rule;
      const directory = await resolveDirectory(dirname(path));
      return directory === null ? rule : { ...rule, executable: resolve(directory, basename(path)) };
    }),
  );
}

/** Variables that make a loader or an interpreter run other code are refused even if every program is allowed. */
function assertNoInjection({ inherited = {}, set }: ExecPolicyRequest): void {
  const env: RequestedEnvironment["set"] = { ...inherited, ...set };
  const injected = Object.keys(env).find(
    (name) => isInjectionVariable(name) && env[name] !== process.env[name],
  );
  if (injected !== undefined) throw new ExecDenied(`${injected} can make programs load other code`);
}

/** Another user with write access to the file, or to a directory of its path, could replace the program after the decision. */
async function assertNotReplaceable({ entry, file }: LocatedExecutable): Promise<void> {
  // In a user namespace, files of the real root, `/` included, appear to belong to the overflow uid.
  const owners = [0, process.getuid?.(), (await lstat("/")).uid];
  for (const path of new Set([...pathPrefixes(entry), ...pathPrefixes(file)])) {
    const found = await lstat(path).catch(() => {
      throw new ExecDenied(`${path} no longer exists`);
    });
    if (!owners.includes(found.uid))
      throw new ExecDenied(`${path} belongs to another user, who can replace it`);
    // In a sticky directory only the owner of an entry can replace it.
    const isProtected = found.isSymbolicLink() || (found.isDirectory() && (found.mode & 0o1000) !== 0);
    if (!isProtected && (found.mode & 0o002) !== 0)
      throw new ExecDenied(`other users can write to ${path}, so they could replace what is executed`);
  }
}

/** The path, and every directory above it. */
function pathPrefixes(path: string): readonly string[] {
  return path === "/" ? ["/"] : [...pathPrefixes(dirname(path)), path];
}
