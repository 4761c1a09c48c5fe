import { lstat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { ExecDenied } from "../errors.js";
import type { ExecRule } from "../store/session-record.js";
import { injects } from "../supervisor/injection-variables.js";
import { judgeEnvironment, namesOf, type AskedEnvironment } from "./exec-environment.js";
import { allowsEverything, decideExec, type ExecDecision, type ExecRequest } from "./exec-rules.js";
import {
  locateExecutable,
  locateOnPath,
  resolveDirectory,
  type LocatedExecutable,
} from "./resolve-executable.js";

/** What is to be executed, and in which environment. */
export interface ExecWish extends AskedEnvironment {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  /** The operator's PATH: the gateway's own, or the one that the agent's entry sets. */
  readonly path: string | undefined;
}

/** What the rules say, and what to execute when they, or the person they have asked, say yes. */
export interface JudgedExec extends ExecDecision {
  /** Null: nothing is judged. The command is executed as its caller gave it. */
  readonly command: {
    /** Its first word is the absolute path that was judged: what is executed depends on no PATH and no directory. */
    readonly argv: readonly string[];
    /** The whole environment. */
    readonly environment: Readonly<Record<string, string>>;
    /** Variables of it that no list has; empty when nobody is asked. */
    readonly unlisted: readonly string[];
  } | null;
  readonly request: ExecRequest;
}

/** What a session's rules say. Rejects with ExecDenied when it is nothing that they allow, whoever is asked. */
export async function judgeExec(rules: readonly ExecRule[], wish: ExecWish): Promise<JudgedExec> {
  const { argv, path } = wish;
  const [name = ""] = argv;
  const cwd = resolve(wish.cwd ?? process.cwd());
  const operators = await locate(name, cwd, path);
  const { environment, unlisted } = judgeEnvironment(wish);
  const located = operators ?? (await locateExecutable(name, { path: environment["PATH"], cwd }));
  if (located === null)
    throw new ExecDenied(`${name} is nothing that can be executed, or cannot be told from here`);
  const found = await foundBy(name, located, operators, path);
  const request = { executable: located.entry, file: located.file, found, argv, cwd };
  const decision = decideExec(await resolved(rules, request), request);
  const rule = rules[decision.rule ?? -1];
  if (rule !== undefined && allowsEverything(rule)) {
    mustNotInject(wish);
    return { ...decision, request, command: null };
  }
  if (decision.effect === "deny") return { ...decision, request, command: null };
  if (operators === null)
    throw new ExecDenied(
      `${name} is not on the gateway's PATH, which decides what a rule means; name it by its absolute path`,
    );
  if (decision.effect === "allow") await mustBeOurs(located);
  if (decision.effect === "allow" && unlisted.length > 0)
    throw new ExecDenied(
      `its environment has variables that its exec rules do not cover: ${namesOf(unlisted)}. Leave them out (--clear-env), or have the operator list them (environment.pass in the config)`,
    );
  const command = { argv: [located.entry, ...argv.slice(1)], environment, unlisted };
  return { ...decision, request, command };
}

/** By its path, or on the operator's PATH: the caller's has no say. */
function locate(name: string, cwd: string, path: string | undefined): Promise<LocatedExecutable | null> {
  return name.includes("/") ? locateExecutable(name, { path: undefined, cwd }) : locateOnPath(name, path);
}

async function foundBy(
  name: string,
  { entry }: LocatedExecutable,
  operators: LocatedExecutable | null,
  path: string | undefined,
): Promise<ExecRequest["found"]> {
  if (operators === null || (name.includes("/") && !name.startsWith("/"))) return "relative";
  if (!name.includes("/")) return "on-path";
  return (await locateOnPath(basename(entry), path))?.entry === entry ? "on-path" : "by-path";
}

/** With the links in a rule's directory resolved, as they are in what is compared with it. Those that cannot be stay. */
async function resolved(
  rules: readonly ExecRule[],
  { executable, file }: ExecRequest,
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

/** Variables by which a loader or an interpreter runs other code are refused also where every program is allowed. */
function mustNotInject({ inherited = {}, set }: ExecWish): void {
  const env: AskedEnvironment["set"] = { ...inherited, ...set };
  const injected = Object.keys(env).find((name) => injects(name) && env[name] !== process.env[name]);
  if (injected !== undefined)
    throw new ExecDenied(`${injected} makes programs load code they were not asked to`);
}

/** Whoever may write the file, or a directory on the way to it, decides what is executed after it was judged. */
async function mustBeOurs({ entry, file }: LocatedExecutable): Promise<void> {
  // In a user namespace what is root's outside belongs to nobody, and so does the root directory.
  const owners = [0, process.getuid?.(), (await lstat("/")).uid];
  for (const path of new Set([...wayTo(entry), ...wayTo(file)])) {
    const found = await lstat(path).catch(() => {
      throw new ExecDenied(`${path} is not there any more`);
    });
    if (!owners.includes(found.uid))
      throw new ExecDenied(`${path} belongs to another user, who can replace it`);
    // In a sticky directory only the owner of an entry can replace it.
    const isProtected = found.isSymbolicLink() || (found.isDirectory() && (found.mode & 0o1000) !== 0);
    if (!isProtected && (found.mode & 0o002) !== 0)
      throw new ExecDenied(`other users may write ${path}, and so decide what is executed`);
  }
}

/** The path, and every directory above it. */
function wayTo(path: string): readonly string[] {
  return path === "/" ? ["/"] : [...wayTo(dirname(path)), path];
}
