import { supportedContent } from "../../../acp/turn/prompt-content.js";
import type { PromptRequest } from "../../../acp/session/prompt-queue.js";
import type { ParsedRequestOf, RequestContext, ResponseOf, RouteHandlers } from "../../../api/contract.js";
import { omitUndefined } from "../../../model/record-type.js";
import { closeDescendants } from "../close-session.js";
import { ensureSession } from "./spawn.js";
import type { HandlerDeps } from "../handler-deps.js";
import { BadInput, NotFound } from "../../../errors.js";
import type { AcpSession, AcpTurn } from "../../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../../model/acp/permission-request.js";
import { newTurnId } from "../../../model/ids.js";
import { createAcpQueries, requireAcpSession } from "../../../queries/acp.js";
import {
  acpElicitationResponse,
  acpPermissionResponse,
  acpSessionResponse,
  acpTurnResponse,
} from "../../../queries/acp-responses.js";
import { agentRun } from "../../../queries/agent-runs.js";
import { NO_PAGE, pageOfQuestion } from "../../../sessions/paginate-question.js";
import { sessionIdOf } from "../../../sessions/requester.js";
import { type TaskInput, taskKeyOfTurn } from "../../../tasks/tasks.js";
import { assertMaySetOrigin, resolveTargets, waitingOptions } from "../../background/notification-targets.js";
import { findCurrentTask, findParentSession } from "../../background/parent-session-and-task.js";

export function createAcpHandlers(deps: HandlerDeps) {
  const { acp, store } = deps;
  const shown = async (session: AcpSession): Promise<ResponseOf<"acpClose">["session"]> => {
    const row = await deps.sessions.get(session.sessionId);
    return acpSessionResponse(session, row, await agentRun(store, session));
  };
  const keyOf = async ({ sessionId }: AcpPermissionRequest): Promise<string> =>
    (await deps.sessions.get(sessionId))?.key ?? "";
  return {
    ...createAcpQueries({
      ...deps,
      isAgentGone: (session) => acp.isAgentGone(session),
      verifyOwnedTree: (sessionId) => acp.verifyProcessTree(sessionId),
      stderrOf: (sessionId) => acp.stderrOf(sessionId),
      questionOf: (permission) => acp.questionOf(permission),
    }),

    acpSpawn: async ({ body }, context) => {
      deps.assertAcceptingRuns();
      assertMaySetOrigin(context.requester, body, deps.channels);
      const earlier = await findEarlierTurn(deps, body.turnId, context);
      const beganAt = performance.now();
      const { session, created } = earlier ?? (await ensureSession(deps, body, context));
      const { prompt: text } = body;
      if (text === undefined) return { session: await shown(session), created, turn: null };
      const prompt = { ...body, ...timeLeft(body, beganAt), text };
      const starting = startPrompt(deps, session, prompt, context, earlier?.turn ?? null);
      const now = await starting.catch(async (error: unknown) => {
        // The session was opened only for this prompt.
        const { actor } = context.requester;
        if (created && error instanceof BadInput) await acp.closeSession(session.sessionId, { actor });
        throw error;
      });
      const row = (await store.getAcpSession(session.sessionId)) ?? session;
      return { session: await shown(row), created, turn: acpTurnResponse(now) };
    },

    acpPrompt: async ({ params, body }, context) => {
      deps.assertAcceptingRuns();
      assertMaySetOrigin(context.requester, body, deps.channels);
      const session = await requireAcpSession(deps, context.requester, params.id);
      const earlier = await findEarlierTurn(deps, body.turnId, context);
      if (earlier !== null && earlier.session.sessionId !== session.sessionId)
        throw new BadInput("turnId", "another session has a turn with that id; nothing was sent");
      return {
        turn: acpTurnResponse(await startPrompt(deps, session, body, context, earlier?.turn ?? null)),
      };
    },

    acpCancel: async ({ params, body: { turnId, reapTools } }, { requester }) => {
      const { sessionId } = await requireAcpSession(deps, requester, params.id);
      const { actor } = requester;
      const turn = await acp.cancelTurn(sessionId, { actor, reapTools, ...omitUndefined({ turnId }) });
      return { turn: turn === null ? null : acpTurnResponse(turn) };
    },

    acpClose: async ({ params, body: { reason = null, tree, discardPersistentState } }, context) => {
      const { actor } = context.requester;
      const { sessionId } = await requireAcpSession(deps, context.requester, params.id);
      const { session, survivors } = await acp.closeSession(sessionId, {
        actor,
        reason,
        discardPersistentState,
      });
      const row = await deps.authorizer.requireSession(context.requester, sessionId);
      const left = await closeDescendants(deps, row, { reason, tree }, context);
      const run = session.runId === null ? null : await deps.supervisor.getRun(session.runId);
      const emptiness = run?.emptiness ?? null;
      return { session: await shown(session), survivors: [...survivors], emptiness, ...left };
    },

    acpAnswer: async ({ params, body }, { requester }) => {
      const verdict = body.verdict === "cancel" ? "cancelled" : body.verdict;
      const answer = await acp.answerPermission(params.id, verdict, requester.actor, body);
      if (answer === null)
        throw new NotFound(`permission request ${params.id}; \`holdfast acp permissions\` lists all`);
      const { permission, decided } = answer;
      const question = await acp.questionOf(permission);
      return { permission: acpPermissionResponse(permission, question, await keyOf(permission)), decided };
    },

    acpQuestion: async ({ params, query }) => {
      const permission = await store.getAcpPermissionRequest(params.id);
      if (permission === null)
        throw new NotFound(`permission request ${params.id}; \`holdfast acp permissions\` lists all`);
      const question = await acp.questionOf(permission);
      const { parts, ...page } =
        question === null ? NO_PAGE : await pageOfQuestion(question, query.page, query.reveal === true);
      return {
        permission: acpPermissionResponse(permission, question, await keyOf(permission)),
        form: acpElicitationResponse(acp.elicitationOf(permission)),
        ...page,
        parts: [...parts],
      };
    },
  } satisfies Partial<RouteHandlers>;
}

/** The time for a turn: the start of its agent counts, too. */
function timeLeft(
  { timeoutMs }: Pick<ParsedRequestOf<"acpSpawn">["body"], "timeoutMs">,
  beganAt: number,
): { readonly timeoutMs?: number } {
  if (timeoutMs === undefined) return {};
  return { timeoutMs: Math.max(1, Math.round(timeoutMs - (performance.now() - beganAt))) };
}

/** Null: the turn id is new. */
async function findEarlierTurn(
  deps: HandlerDeps,
  turnId: string | undefined,
  { requester }: RequestContext,
): Promise<{ readonly session: AcpSession; readonly created: false; readonly turn: AcpTurn } | null> {
  const turn = turnId === undefined ? null : await deps.store.getAcpTurn(turnId);
  if (turn === null) return null;
  const seen = await deps.authorizer.canSeeRunsOf(requester)(turn.sessionId);
  const session = seen ? await deps.store.getAcpSession(turn.sessionId) : null;
  if (session === null) throw new BadInput("turnId", "another turn has that id; nothing was sent");
  return { session, created: false, turn };
}

type Prompt = Omit<ParsedRequestOf<"acpPrompt">["body"], "turnId"> & { readonly turnId?: string | undefined };

/** Starts a turn and waits for its end if requested. It is a task unless the operator follows it. */
async function startPrompt(
  deps: HandlerDeps,
  session: AcpSession,
  prompt: Prompt,
  context: RequestContext,
  earlier: AcpTurn | null,
): Promise<AcpTurn> {
  const { sessionId } = session;
  const { text, timeoutMs, noOutputTimeoutMs, wait, turnId = newTurnId() } = prompt;
  const askedBy = context.requester.actor;
  // Before anything is stored. A repeated request was checked before.
  const content = earlier === null ? supportedContent(prompt.content, session.capabilities) : [];
  const request: PromptRequest = {
    text,
    ...(content.length === 0 ? {} : { content }),
    askedBy,
    turnId,
    ...omitUndefined({ timeoutMs, noOutputTimeoutMs }),
  };
  const start = async (onStarted = (): void => undefined, taskId: string | null = null): Promise<AcpTurn> => {
    const turn = earlier ?? (await deps.acp.prompt(sessionId, request));
    // First, so that updates before the task is followed are not counted as its progress.
    onStarted();
    if (taskId !== null) await recordTaskInRunDirectory(deps, sessionId, taskId);
    return (wait ? await deps.acp.updates.waitForTurnEnd(turn, context.disconnected) : null) ?? turn;
  };
  const work = await acpTask(deps, session, prompt, context, turnId);
  if (work === null) return start();
  const startOptions = waitingOptions({ ...prompt, background: !wait }, context.disconnected);
  return deps.background.runAsTask(work, ({ onStarted, taskId }) => start(onStarted, taskId), startOptions);
}

/** Writes the task's id into the run directory of its agent, so that it can be found without the store. Never rejects. */
async function recordTaskInRunDirectory(
  { store, runDirectories }: HandlerDeps,
  sessionId: string,
  taskId: string,
): Promise<void> {
  const runId = (await store.getAcpSession(sessionId).catch(() => null))?.runId ?? null;
  // A full disk must not prevent a turn.
  if (runId !== null) await runDirectories.addTask(runId, taskId).catch(() => undefined);
}

/** Null: the operator's own session. */
async function acpTask(
  deps: HandlerDeps,
  { sessionId, mode, runId }: AcpSession,
  prompt: Prompt,
  { requester }: RequestContext,
  turnId: string,
): Promise<TaskInput | null> {
  const row = await deps.sessions.get(sessionId);
  const parentSessionId =
    sessionIdOf(requester) ?? (row === null ? null : await findParentSession(deps.sessions, row));
  const { text, wait, background, notify, origin } = prompt;
  const notifies = background || notify !== undefined || origin !== undefined;
  if (mode === "session" && parentSessionId === null && !notifies) return null;
  return {
    runtime: "acp",
    key: taskKeyOfTurn(turnId),
    text,
    childSessionId: sessionId,
    agentId: row?.agentId ?? null,
    runId,
    turnId,
    parentTaskId: await findCurrentTask(deps.store, requester),
    ...(await resolveTargets(deps, {
      requester,
      requested: prompt,
      mode: mode === "run" ? "run" : "interactive",
      parentSessionId,
      seesResult: !wait && !background,
    })),
  };
}
