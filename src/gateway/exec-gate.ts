import { ExecDenied } from "../errors.js";
import type { Approvals } from "../sessions/approvals.js";
import { judgeExec } from "../sessions/judge-exec.js";
import { commandQuestion, environmentDifference, NO_STDIN } from "../sessions/question.js";
import type { Sessions } from "../sessions/sessions.js";
import type { SessionRow } from "../store/session-record.js";
import type { ExecIdentity, ExecQuestion } from "./handlers/handlers.js";
import type { Asking } from "./server/app.js";

export interface ExecGate {
  readonly sessions: Sessions;
  readonly approvals: Approvals;
}

/** What a run for this requester is marked with. Rejects with ExecDenied when a rule, or the person who was asked, says no. */
export async function mayExec(
  { sessions, approvals }: ExecGate,
  { requester, gone }: Asking,
  question: ExecQuestion,
  said: { readonly sessionKey?: string | undefined; readonly agentId?: string | undefined },
): Promise<ExecIdentity> {
  if (requester.kind === "operator") {
    if (said.sessionKey === undefined) return {};
    const { session } = await sessions.open(said.sessionKey);
    return identityOf(sessions, session);
  }
  const { session } = requester;
  if (said.agentId !== undefined && said.agentId !== session.agentId)
    throw new ExecDenied("its runs are its own agent's, and cannot be said to be another's");
  await allowed(approvals, session, question, gone);
  return identityOf(sessions, session);
}

/** The same question, of something that is run for another session than the one that asks. */
export async function mustBeAllowed(
  { approvals }: ExecGate,
  { requester, gone }: Asking,
  question: ExecQuestion,
): Promise<void> {
  if (requester.kind === "session") await allowed(approvals, requester.session, question, gone);
}

/** What an agent's entry sets is the operator's word. Of that, only what decides which file is executed is judged. */
export function judgedEnvironment(
  callers: Readonly<Record<string, string>> | undefined,
  { PATH }: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const environment = callers ?? (process.env as Record<string, string>);
  return PATH === undefined ? environment : { ...environment, PATH };
}

async function allowed(
  approvals: Approvals,
  session: SessionRow,
  question: ExecQuestion,
  gone: AbortSignal,
): Promise<void> {
  const { effect, rule, request } = await judgeExec(session.execRules, question);
  if (effect === "allow") return;
  if (effect === "deny") throw new ExecDenied(`rule ${(rule ?? 0) + 1} of its session forbids it`);
  const { env, stdin = NO_STDIN } = question;
  const asked = { ...request, env: environmentDifference(env), stdin, rule };
  const { verdict, actor } = await approvals.ask(session, asked, { signal: gone });
  if (verdict !== "allow") throw new ExecDenied(verdict === "deny" ? `${actor} said no` : actor);
  // Links and PATH may lead elsewhere than when the operator was asked.
  const { request: now } = await judgeExec(session.execRules, question);
  if (commandQuestion({ ...asked, ...now }).digest !== commandQuestion(asked).digest)
    throw new ExecDenied(
      `${asked.executable} was allowed, and ${now.executable} would be executed now; nothing was started`,
    );
}

/** The run acts for its session: its token is in its environment, and in that of everything it starts. */
export async function identityOf(sessions: Sessions, session: SessionRow): Promise<ExecIdentity> {
  const token = await sessions.issueToken(session.id);
  if (token === null) throw new ExecDenied("its session has been closed");
  return {
    sessionKey: session.key,
    sessionId: session.id,
    ...(session.agentId === null ? {} : { agentId: session.agentId }),
    env: { HOLDFAST_TOKEN: token },
  };
}
