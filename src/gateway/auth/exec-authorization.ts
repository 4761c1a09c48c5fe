import type { RequestContext } from "../../api/contract.js";
import type { AgentEntry } from "../../config/agents.js";
import { ExecDenied } from "../../errors.js";
import type { SessionRecord } from "../../model/session.js";
import {
  type CommandToApprove,
  diffEnvironment,
  NO_STDIN,
  questionAboutCommand,
  type RequestedStdin,
} from "../../sessions/approval-question.js";
import type { Approvals } from "../../sessions/approvals.js";
import { cleanEnvironment } from "../../sessions/exec-environment.js";
import { evaluateExec, type ExecEvaluation, type ExecPolicyRequest } from "../../sessions/evaluate-exec.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { SpawnOptions } from "../../supervisor/api.js";

export interface ExecAuthorizationDeps {
  readonly sessions: Sessions;
  readonly approvals: Approvals;
  /** Variables that the config lets sessions set and passes to their runs. */
  readonly passEnv: readonly string[];
}

interface AuthorizedExec {
  /** The session and agent that own the run. */
  readonly identity: ExecIdentity;
  readonly command: AllowedCommand;
}

/** The command that the session may execute. */
export interface AllowedCommand {
  readonly argv: readonly string[];
  /** The whole environment; undefined: the gateway's own. */
  readonly environment: Readonly<Record<string, string>> | undefined;
  /** Variables to set in addition. */
  readonly env: Readonly<Record<string, string>>;
}

/** Rejects with ExecDenied if a rule or the operator denies the command. */
export async function authorizeExec(
  deps: ExecAuthorizationDeps,
  context: RequestContext,
  requested: RequestedCommand,
  claimed: { readonly sessionKey?: string | undefined; readonly agentId?: string | undefined },
): Promise<AuthorizedExec> {
  const { sessions } = deps;
  const { requester } = context;
  if (requester.kind === "operator") {
    if (claimed.sessionKey === undefined) return { identity: {}, command: requested };
    const { session } = await sessions.open(claimed.sessionKey);
    const identity = await issueExecIdentity(sessions, session);
    return { identity, command: await authorizeCommand(deps, context, requested) };
  }
  const { session } = requester;
  if (claimed.agentId !== undefined && claimed.agentId !== session.agentId)
    throw new ExecDenied("a session's runs belong to its own agent; agentId must name that agent");
  const command = await authorizeCommand(deps, context, requested);
  return { identity: await issueExecIdentity(sessions, session), command };
}

/**
 * Returns the command to execute for a session, the requester's own or a new one that it starts. An operator's command
 * is executed as requested, a session's command as it was judged. Rejects with ExecDenied.
 */
export async function authorizeCommand(
  deps: ExecAuthorizationDeps,
  { requester, disconnected }: RequestContext,
  requested: RequestedCommand,
): Promise<AllowedCommand> {
  const { argv, cwd, environment, env, entry, stdin = NO_STDIN } = requested;
  const pass = [...deps.passEnv, ...(entry?.passEnv ?? [])];
  const clean = cleanEnvironment(pass);
  const asked = { argv, environment: environment ?? clean, env };
  if (requester.kind === "operator") return asked;
  const { session } = requester;
  const entrys = entry?.env ?? {};
  const execRequest = {
    argv,
    cwd,
    path: entrys["PATH"] ?? process.env["PATH"],
    base: { ...clean, ...entrys },
    // Variables of the agent's entry replace those of the caller.
    inherited: Object.fromEntries(
      Object.entries(environment ?? {}).filter(([name]) => !Object.hasOwn(entrys, name)),
    ),
    set: env,
    pass,
  };
  const { command } = await requireAllowed(deps.approvals, session, execRequest, {
    stdin,
    gone: disconnected,
  });
  return command === null ? asked : { ...command, env: {} };
}

/** Returns the judgement if a rule or the operator allows the command; otherwise rejects with ExecDenied. */
async function requireAllowed(
  approvals: Approvals,
  session: SessionRecord,
  execRequest: ExecPolicyRequest,
  { stdin, gone: disconnected }: { readonly stdin: RequestedStdin; readonly gone: AbortSignal },
): Promise<ExecEvaluation> {
  const judgement = await evaluateExec(session.execRules, execRequest);
  const { effect, rule } = judgement;
  if (effect === "allow") return judgement;
  const asked = effect === "deny" ? null : commandForApproval(judgement, execRequest, stdin);
  if (asked === null) throw new ExecDenied(`rule ${(rule ?? 0) + 1} of the session forbids the command`);
  const { verdict, actor } = await approvals.ask(session, { ...asked, rule }, { signal: disconnected });
  if (verdict !== "allow") throw new ExecDenied(verdict === "deny" ? `${actor} denied it` : actor);
  // Symbolic links may have changed since the operator was asked.
  const now = await evaluateExec(session.execRules, execRequest);
  const executed = commandForApproval(now, execRequest, stdin);
  if (executed === null || questionAboutCommand(executed).digest !== questionAboutCommand(asked).digest)
    throw new ExecDenied(
      `${asked.executable} was allowed, but ${now.request.file} would be executed now; nothing was started`,
    );
  return now;
}

/** The command as it would be executed: its program after symbolic links, and how its environment differs from the clean one. */
function commandForApproval(
  { request, command }: ExecEvaluation,
  { base }: ExecPolicyRequest,
  stdin: RequestedStdin,
): CommandToApprove | null {
  if (command === null) return null;
  const { argv, environment, unlisted } = command;
  const env = { ...diffEnvironment(environment, base), unlisted };
  return { executable: request.file, argv, cwd: request.cwd, env, stdin };
}

/** The run acts for its session: its token is in its environment, and in that of everything it starts. */
export async function issueExecIdentity(sessions: Sessions, session: SessionRecord): Promise<ExecIdentity> {
  const token = await sessions.issueRunToken(session.id);
  if (token === null) throw new ExecDenied("the session is closed");
  return {
    sessionKey: session.key,
    sessionId: session.id,
    ...(session.agentId === null ? {} : { agentId: session.agentId }),
    env: { HOLDFAST_TOKEN: token },
  };
}

interface RequestedCommand {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  /** The caller's whole environment; undefined: the caller gave none. */
  readonly environment: Readonly<Record<string, string>> | undefined;
  /** Variables to set in addition. */
  readonly env: Readonly<Record<string, string>>;
  /** Entry of the agent to start; the operator wrote it, so it is trusted. */
  readonly entry?: Pick<AgentEntry, "env" | "passEnv">;
  /** Default: none. */
  readonly stdin?: RequestedStdin;
}

/** The markers of a run, and the limits of its output if they differ from the default. */
export type ExecIdentity = Pick<
  SpawnOptions,
  "sessionKey" | "sessionId" | "agentId" | "backendId" | "env" | "stdout" | "stderr"
>;
