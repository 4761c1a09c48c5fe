import { ExecDenied } from "../errors.js";
import type { Approvals } from "../sessions/approvals.js";
import { cleanEnvironment } from "../sessions/exec-environment.js";
import { judgeExec, type ExecWish, type JudgedExec } from "../sessions/judge-exec.js";
import {
  commandQuestion,
  environmentDifference,
  NO_STDIN,
  type AskedCommand,
  type AskedStdin,
} from "../sessions/question.js";
import type { Sessions } from "../sessions/sessions.js";
import type { SessionRow } from "../store/session-record.js";
import type { ExecIdentity, ExecQuestion } from "./handlers/handlers.js";
import type { Asking } from "./server/app.js";

export interface ExecGate {
  readonly sessions: Sessions;
  readonly approvals: Approvals;
  /** Variables that the config lets sessions set and passes to their runs. */
  readonly passEnv: readonly string[];
}

export interface MayExec {
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
export async function mayExec(
  gate: ExecGate,
  asking: Asking,
  question: ExecQuestion,
  said: { readonly sessionKey?: string | undefined; readonly agentId?: string | undefined },
): Promise<MayExec> {
  const { sessions } = gate;
  const { requester } = asking;
  if (requester.kind === "operator") {
    if (said.sessionKey === undefined) return { identity: {}, command: question };
    const { session } = await sessions.open(said.sessionKey);
    const identity = await identityOf(sessions, session);
    return { identity, command: await allowedCommand(gate, asking, question) };
  }
  const { session } = requester;
  if (said.agentId !== undefined && said.agentId !== session.agentId)
    throw new ExecDenied("its runs are its own agent's, and cannot be said to be another's");
  const command = await allowedCommand(gate, asking, question);
  return { identity: await identityOf(sessions, session), command };
}

/**
 * Returns the command to execute for a session, the requester's own or a new one that it starts. An operator's command
 * is executed as requested, a session's command as it was judged. Rejects with ExecDenied.
 */
export async function allowedCommand(
  gate: ExecGate,
  { requester, gone }: Asking,
  question: ExecQuestion,
): Promise<AllowedCommand> {
  const { argv, cwd, environment, env, entry, stdin = NO_STDIN } = question;
  const pass = [...gate.passEnv, ...(entry?.passEnv ?? [])];
  const clean = cleanEnvironment(pass);
  const asked = { argv, environment: environment ?? clean, env };
  if (requester.kind === "operator") return asked;
  const { session } = requester;
  const entrys = entry?.env ?? {};
  const wish = {
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
  const { command } = await judged(gate.approvals, session, wish, { stdin, gone });
  return command === null ? asked : { ...command, env: {} };
}

/** Returns the judgement if a rule or the operator allows the command; otherwise rejects with ExecDenied. */
async function judged(
  approvals: Approvals,
  session: SessionRow,
  wish: ExecWish,
  { stdin, gone }: { readonly stdin: AskedStdin; readonly gone: AbortSignal },
): Promise<JudgedExec> {
  const judgement = await judgeExec(session.execRules, wish);
  const { effect, rule } = judgement;
  if (effect === "allow") return judgement;
  const asked = effect === "deny" ? null : askedCommand(judgement, wish, stdin);
  if (asked === null) throw new ExecDenied(`rule ${(rule ?? 0) + 1} of the session forbids the command`);
  const { verdict, actor } = await approvals.ask(session, { ...asked, rule }, { signal: gone });
  if (verdict !== "allow") throw new ExecDenied(verdict === "deny" ? `${actor} said no` : actor);
  // Symbolic links may have changed since the operator was asked.
  const now = await judgeExec(session.execRules, wish);
  const executed = askedCommand(now, wish, stdin);
  if (executed === null || commandQuestion(executed).digest !== commandQuestion(asked).digest)
    throw new ExecDenied(
      `${asked.executable} was allowed, but ${now.request.file} would be executed now; nothing was started`,
    );
  return now;
}

/** The command as it would be executed: its program after symbolic links, and how its environment differs from the clean one. */
function askedCommand(
  { request, command }: JudgedExec,
  { base }: ExecWish,
  stdin: AskedStdin,
): AskedCommand | null {
  if (command === null) return null;
  const { argv, environment, unlisted } = command;
  const env = { ...environmentDifference(environment, base), unlisted };
  return { executable: request.file, argv, cwd: request.cwd, env, stdin };
}

/** The run acts for its session: its token is in its environment, and in that of everything it starts. */
export async function identityOf(sessions: Sessions, session: SessionRow): Promise<ExecIdentity> {
  const token = await sessions.issueRunToken(session.id);
  if (token === null) throw new ExecDenied("its session has been closed");
  return {
    sessionKey: session.key,
    sessionId: session.id,
    ...(session.agentId === null ? {} : { agentId: session.agentId }),
    env: { HOLDFAST_TOKEN: token },
  };
}
