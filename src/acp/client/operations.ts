import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import type { ClientAccess } from "../../config/client-access.js";
import { defaults } from "../../defaults.js";
import { runIdFrom } from "../../model/ids.js";
import type { ExecRule } from "../../model/exec/exec-rule.js";
import {
  type ApprovalQuestion,
  diffEnvironment,
  NO_STDIN,
  questionAboutCommand,
  questionAboutText,
} from "../../sessions/approval-question.js";
import { cleanEnvironment } from "../../sessions/exec-environment.js";
import { evaluateExec, type ExecEvaluation } from "../../sessions/evaluate-exec.js";
import { resolveExecutable } from "../../sessions/resolve-executable.js";
import { displayCommand, redactArguments } from "../../text/redact.js";
import { shellQuote } from "../../text/shell-words.js";
import type { AgentCommand } from "../agent-command.js";
import type { SessionWriter } from "../session-writer.js";
import { INVALID_PARAMS, RpcFailure } from "../wire/message.js";
import {
  assertSizeAllowed,
  type ContainedPath,
  readTextFile,
  resolveContained,
  writeTextFile,
} from "./files.js";
import type { Terminals } from "./terminals.js";

/** An operation that an agent requests and that the session's rules judge. */
export interface ClientOperation {
  readonly kind: "read" | "edit" | "execute";
  /** Matched by rules: the whole resolved path or command. */
  readonly title: string;
  /** Shown and stored: with secrets redacted. */
  readonly displayTitle: string;
  /** For the operator. */
  readonly question: ApprovalQuestion;
  /** The result of the session's exec rules; null: the session has none. */
  readonly exec?: ExecEvaluation | null;
  /** Repeatable after a crash. */
  execute(turnId: string): Promise<unknown>;
}

export interface OperationDeps {
  readonly writer: SessionWriter;
  /** Files and terminals that the agent may use. */
  readonly clientAccess: ClientAccess;
  readonly terminals: Terminals;
  readonly owner: { readonly sessionKey: string; readonly agentId: string | null };
  /** The command to start the agent; null: no longer known. */
  readonly command: () => Promise<AgentCommand | null>;
  readonly execRules: () => Promise<readonly ExecRule[]>;
  /** Binds the token in the command's environment to this run; null: no run was started. */
  readonly bindToken: (command: AgentCommand | null, runId: string | null) => Promise<void>;
}

const textWithoutNul = z.string().refine((value) => !value.includes("\0"), "must not contain NUL");
const nonNegativeCount = z.int().min(0).nullish();
const readParams = z.object({ path: textWithoutNul, line: nonNegativeCount, limit: nonNegativeCount });
const writeParams = z.object({ path: textWithoutNul, content: z.string() });
const commandParams = z.object({
  command: textWithoutNul.min(1),
  args: z.array(textWithoutNul).default([]),
  env: z.array(z.object({ name: textWithoutNul, value: textWithoutNul })).default([]),
  cwd: textWithoutNul.refine(isAbsolute, "must be an absolute path").nullish(),
  outputByteLimit: nonNegativeCount,
});
const createTerminalParams = commandParams.refine(
  isShort,
  `a command has at most ${defaults.acpCommandChars} characters, with its variables`,
);

/** By method. `seed` is the same when the request is repeated after a crash. */
export const clientOperations = {
  "fs/read_text_file": async (
    params: unknown,
    { clientAccess: access, writer }: OperationDeps,
  ): Promise<ClientOperation> => {
    const { path, ...lines } = parseParams(readParams, params);
    const resolved = await resolveContained(path, [writer.row.cwd, ...access.roots]);
    const question = questionAboutText(["path", resolved.path], []);
    return { kind: "read", ...titlesOf(resolved), question, execute: () => readTextFile(resolved, lines) };
  },

  "fs/write_text_file": async (
    params: unknown,
    { clientAccess: access, writer }: OperationDeps,
    seed: string,
  ): Promise<ClientOperation> => {
    const { path, content } = parseParams(writeParams, params);
    const resolved = await resolveContained(path, [writer.row.cwd, ...access.roots]);
    assertSizeAllowed(resolved, content);
    const id = runIdFrom(seed).slice("run_".length);
    const question = questionAboutText(["path", resolved.path], [["content", content]]);
    return {
      kind: "edit",
      ...titlesOf(resolved),
      question,
      execute: () => writeTextFile(resolved, content, id),
    };
  },

  "terminal/create": async (params: unknown, deps: OperationDeps, seed: string): Promise<ClientOperation> => {
    const { command, args, env, cwd, outputByteLimit } = parseParams(createTerminalParams, params);
    const { row } = deps.writer;
    const argv = [command, ...args];
    const own = await deps.command();
    await deps.bindToken(own, row.runId);
    const requested = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    if (Object.keys(requested).some((name) => name.startsWith("HOLDFAST_")))
      throw new RpcFailure(INVALID_PARAMS, "env must not contain HOLDFAST_ variables");
    const inherit = own?.inherit ?? cleanEnvironment();
    const agentEnv: Readonly<Record<string, string>> = own?.env ?? {};
    const base = { ...inherit, ...agentEnv };
    // Resolved as text, as it is executed: a link before a `..` is not followed.
    const resolved = resolve(cwd ?? row.cwd);
    const rules = await deps.execRules();
    const exec =
      rules.length === 0
        ? null
        : await evaluateExec(rules, {
            argv,
            cwd: resolved,
            path: agentEnv["PATH"] ?? process.env["PATH"],
            base,
            set: requested,
            pass: own?.passEnv ?? [],
          });
    const judged = exec?.command ?? null;
    const spec = {
      ...(judged === null
        ? { argv, inherit, env: { ...agentEnv, ...requested } }
        : { argv: judged.argv, inherit: judged.environment, env: holdfastVariables(agentEnv) }),
      cwd: resolved,
      // The operator trusts the agent's own variables, not those that it sets.
      allowEnv: Object.keys(agentEnv).filter((name) => !Object.hasOwn(requested, name)),
      outputBytes: Math.min(outputByteLimit ?? Infinity, defaults.acpTerminalBytes),
    };
    const { sessionId, runId: agentRunId } = row;
    const owner = { ...deps.owner, sessionId, agentRunId: agentRunId ?? "" };
    const variables = env.map(({ name, value }) => `${name}=${value}`);
    const displayTitle = displayCommand([...variables, ...spec.argv], defaults.acpAskedChars);
    const given = judged?.environment ?? { ...base, ...requested };
    // A command that no rule judges is looked up in its own PATH.
    const found = judged === null ? null : exec?.request.file;
    const question = questionAboutCommand({
      executable:
        found ?? (await resolveExecutable(command, { path: given["PATH"], cwd: resolved })) ?? command,
      argv: spec.argv,
      cwd: resolved,
      // The operator gave the agent this environment, so the question shows only what the agent adds.
      env: { ...diffEnvironment(given, base), unlisted: judged?.unlisted ?? [] },
      stdin: NO_STDIN,
    });
    return {
      kind: "execute",
      title: [...variables, ...argv].map(shellQuote).join(" "),
      displayTitle,
      // The list does not show the directory, and the stored command may be redacted.
      question: {
        ...question,
        whole: question.whole && question.summary === displayTitle && resolved === row.cwd,
      },
      exec,
      execute: (turnId) => deps.terminals.create(seed, spec, { ...owner, turnId }),
    };
  },
} as const;

/** HOLDFAST_ variables, among them the session's token. An inherited environment never contains them. */
function holdfastVariables(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith("HOLDFAST_")));
}

function titlesOf({ path }: ContainedPath): Pick<ClientOperation, "title" | "displayTitle"> {
  return { title: path, displayTitle: path };
}

/** Checked before the redaction, which takes time. */
function isShort({ command, args, env }: z.output<typeof commandParams>): boolean {
  const words = [command, ...args, ...env.flatMap(({ name, value }) => [name, value])];
  return words.reduce((total, word) => total + word.length, 0) <= defaults.acpCommandChars;
}

export type OperationMethod = keyof typeof clientOperations;

export function isOperationMethod(method: string): method is OperationMethod {
  return Object.hasOwn(clientOperations, method);
}

/** The parameters if they may be stored; null: they may contain secrets. */
export function storableParams(method: OperationMethod, params: unknown): unknown {
  if (method === "fs/read_text_file") return parseParams(readParams, params);
  if (method === "fs/write_text_file") return parseParams(writeParams, params);
  const wanted = parseParams(createTerminalParams, params);
  const argv = [wanted.command, ...wanted.args];
  return wanted.env.length === 0 && redactArguments(argv).join("\0") === argv.join("\0") ? wanted : null;
}

export function parseParams<Shape extends z.ZodType>(shape: Shape, params: unknown): z.output<Shape> {
  const parsed = shape.safeParse(params);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new RpcFailure(
    INVALID_PARAMS,
    `${issue?.path.join(".") || "params"}: ${issue?.message ?? "invalid"}`,
  );
}
