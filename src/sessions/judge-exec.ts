import { resolve } from "node:path";
import { ExecDenied } from "../errors.js";
import type { ExecRule } from "../store/session-record.js";
import { injects } from "../supervisor/injection-variables.js";
import { decideExec, type ExecDecision, type ExecRequest } from "./exec-rules.js";
import { resolveExecutable } from "./resolve-executable.js";

/** What somebody wants to execute, with the environment it would have. */
export interface ExecWish {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** What a session's rules say. Rejects with ExecDenied when it is nothing that rules could judge. */
export async function judgeExec(
  rules: readonly ExecRule[],
  { argv, cwd, env }: ExecWish,
): Promise<ExecDecision & { readonly request: ExecRequest }> {
  // Rules judge a program by its file and its words: what makes it run other code cannot be judged by them.
  const injected = Object.keys(env).find((name) => injects(name) && env[name] !== process.env[name]);
  if (injected !== undefined)
    throw new ExecDenied(`${injected} makes programs load code they were not asked to`);
  const where = resolve(cwd ?? process.cwd());
  const executable = await resolveExecutable(argv[0] ?? "", { path: env["PATH"], cwd: where });
  // What nobody can name cannot be judged. If it is simply not there, the run would fail anyway.
  if (executable === null)
    throw new ExecDenied(`${argv[0] ?? ""} is nothing that can be executed, or cannot be told from here`);
  const request = { executable, argv, cwd: where };
  return { ...decideExec(rules, request), request };
}
