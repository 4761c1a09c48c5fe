import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import { defaults } from "../../defaults.js";
import { cleanEnvironment } from "../../sessions/exec-environment.js";
import { judgeExec, type JudgedExec } from "../../sessions/judge-exec.js";
import {
  commandQuestion,
  environmentDifference,
  NO_STDIN,
  textQuestion,
  type Question,
} from "../../sessions/question.js";
import { resolveExecutable } from "../../sessions/resolve-executable.js";
import type { ExecRule } from "../../store/session-record.js";
import type { KeptSession } from "../kept-session.js";
import { displayCommand, redactArguments } from "../../supervisor/redact.js";
import { runIdFrom } from "../../supervisor/ids.js";
import { shellQuote } from "../../supervisor/shell-quote.js";
import type { AgentCommand } from "../agent-process.js";
import { mustFit, readText, writeText } from "./files.js";
import type { ClientOffer } from "./offer.js";
import { locate, type Place } from "./place.js";
import { INVALID_PARAMS, Refusal } from "./refusal.js";
import type { Terminals } from "./terminals.js";

/** What an agent asks us to do, as far as the session's rules have a say in it. */
export interface Wish {
  readonly kind: "read" | "edit" | "execute";
  /** What rules judge it by, all of it: where it really leads, what would really be run. */
  readonly title: string;
  /** The same for people, and to be kept: with secrets hidden. */
  readonly shown: string;
  /** The whole question, for the operator. */
  readonly question: Question;
  /** The judgement of the session's exec rules; null: the session has none. */
  readonly exec?: JudgedExec | null;
  /** May be done again after a crash. `turnId`: the one that it belongs to. */
  fulfil(turnId: string): Promise<unknown>;
}

export interface WishParts {
  readonly kept: KeptSession;
  readonly offer: ClientOffer;
  readonly terminals: Terminals;
  readonly owner: { readonly sessionKey: string; readonly agentId: string | null };
  readonly command: () => Promise<AgentCommand | null>;
  readonly execRules: () => Promise<readonly ExecRule[]>;
  /** Binds the token in the command's environment to this run. */
  readonly bindToken?: (command: AgentCommand | null, runId: string | null) => Promise<void>;
}

const text = z.string().refine((value) => !value.includes("\0"), "must not contain NUL");
const count = z.int().min(0).nullish();
const read = z.object({ path: text, line: count, limit: count });
const write = z.object({ path: text, content: z.string() });
const commandShape = z.object({
  command: text.min(1),
  args: z.array(text).default([]),
  env: z.array(z.object({ name: text, value: text })).default([]),
  cwd: text.refine(isAbsolute, "must be an absolute path").nullish(),
  outputByteLimit: count,
});
const create = commandShape.refine(
  isShort,
  `a command has at most ${defaults.acpCommandChars} characters, with its variables`,
);

/** By method: from what was asked, and a word that is the same when it is asked again after a crash. */
export const wishes = {
  "fs/read_text_file": async (params: unknown, { offer, kept }: WishParts): Promise<Wish> => {
    const { path, ...lines } = parse(read, params);
    const place = await locate(path, [kept.row.cwd, ...offer.roots]);
    const question = textQuestion(["path", place.path], []);
    return { kind: "read", ...named(place), question, fulfil: () => readText(place, lines) };
  },

  "fs/write_text_file": async (params: unknown, { offer, kept }: WishParts, seed: string): Promise<Wish> => {
    const { path, content } = parse(write, params);
    const place = await locate(path, [kept.row.cwd, ...offer.roots]);
    mustFit(place, content);
    const id = runIdFrom(seed).slice("run_".length);
    const question = textQuestion(["path", place.path], [["content", content]]);
    return { kind: "edit", ...named(place), question, fulfil: () => writeText(place, content, id) };
  },

  "terminal/create": async (params: unknown, parts: WishParts, seed: string): Promise<Wish> => {
    const { command, args, env, cwd, outputByteLimit } = parse(create, params);
    const { row } = parts.kept;
    const argv = [command, ...args];
    const own = await parts.command();
    await parts.bindToken?.(own, row.runId);
    const said = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    if (Object.keys(said).some((name) => name.startsWith("HOLDFAST_")))
      throw new Refusal(INVALID_PARAMS, "env must not have variables of Holdfast's own");
    const inherit = own?.inherit ?? cleanEnvironment();
    const agents: Readonly<Record<string, string>> = own?.env ?? {};
    const base = { ...inherit, ...agents };
    // As it is executed: what stands before a `..` may be a link, and is not followed.
    const place = resolve(cwd ?? row.cwd);
    const rules = await parts.execRules();
    const exec =
      rules.length === 0
        ? null
        : await judgeExec(rules, {
            argv,
            cwd: place,
            path: agents["PATH"] ?? process.env["PATH"],
            base,
            set: said,
            pass: own?.passEnv ?? [],
          });
    const judged = exec?.command ?? null;
    const wish = {
      ...(judged === null
        ? { argv, inherit, env: { ...agents, ...said } }
        : { argv: judged.argv, inherit: judged.environment, env: holdfastVariables(agents) }),
      cwd: place,
      // The operator has vouched for what the agent has, not for what it says.
      allowEnv: Object.keys(agents).filter((name) => !Object.hasOwn(said, name)),
      outputBytes: Math.min(outputByteLimit ?? Infinity, defaults.acpTerminalBytes),
    };
    const { sessionId, runId: agentRunId } = row;
    const owner = { ...parts.owner, sessionId, agentRunId: agentRunId ?? "" };
    const variables = env.map(({ name, value }) => `${name}=${value}`);
    const shown = displayCommand([...variables, ...wish.argv], defaults.acpAskedChars);
    const given = judged?.environment ?? { ...base, ...said };
    // A command that no rule judges is searched on its own PATH.
    const found = judged === null ? null : exec?.request.file;
    const question = commandQuestion({
      executable: found ?? (await resolveExecutable(command, { path: given["PATH"], cwd: place })) ?? command,
      argv: wish.argv,
      cwd: place,
      // The operator gave the agent this environment, so the question shows only what the agent adds.
      env: { ...environmentDifference(given, base), unlisted: judged?.unlisted ?? [] },
      stdin: NO_STDIN,
    });
    return {
      kind: "execute",
      title: [...variables, ...argv].map(shellQuote).join(" "),
      shown,
      // The list does not show the directory, and the stored command may be redacted.
      question: { ...question, whole: question.whole && question.summary === shown && place === row.cwd },
      exec,
      fulfil: (turnId) => parts.terminals.create(seed, wish, { ...owner, turnId }),
    };
  },
} as const;

/** The variables of Holdfast, with the session's token: an inherited environment never contains them. */
function holdfastVariables(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith("HOLDFAST_")));
}

function named({ path }: Place): Pick<Wish, "title" | "shown"> {
  return { title: path, shown: path };
}

/** Looked at before secrets are looked for in it. */
function isShort({ command, args, env }: z.output<typeof commandShape>): boolean {
  const words = [command, ...args, ...env.flatMap(({ name, value }) => [name, value])];
  return words.reduce((total, word) => total + word.length, 0) <= defaults.acpCommandChars;
}

export type WishMethod = keyof typeof wishes;

export function isWish(method: string): method is WishMethod {
  return Object.hasOwn(wishes, method);
}

/** What of it may be stored; null: there are secrets in it, or there may be. */
export function storable(method: WishMethod, params: unknown): unknown {
  if (method === "fs/read_text_file") return parse(read, params);
  if (method === "fs/write_text_file") return parse(write, params);
  const wanted = parse(create, params);
  const argv = [wanted.command, ...wanted.args];
  return wanted.env.length === 0 && redactArguments(argv).join("\0") === argv.join("\0") ? wanted : null;
}

export function parse<Shape extends z.ZodType>(shape: Shape, params: unknown): z.output<Shape> {
  const parsed = shape.safeParse(params);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Refusal(INVALID_PARAMS, `${issue?.path.join(".") || "params"}: ${issue?.message ?? "invalid"}`);
}
