import { DEFAULT_RULES, type AcpController } from "../../acp/controller.js";
import type { AskedCommand } from "../../acp/agent-commands.js";
import { newTurnId } from "../../acp/ids.js";
import type { PromptRequest } from "../../acp/prompt-queue.js";
import { BadInput, NotFound } from "../../errors.js";
import { NO_PAGE, questionPage as pageOfQuestion } from "../../sessions/question.js";
import { newSessionId } from "../../sessions/ids.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpSession, AcpTurn, PermissionRule } from "../../store/acp-record.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { TaskStore } from "../../store/task-store.js";
import { keyOfTurn } from "../../tasks/key.js";
import type { TaskInput } from "../../tasks/new-task.js";
import type { RunRecord } from "../../store/run-record.js";
import type { SessionRow } from "../../store/session-record.js";
import type { PERMISSION_PRESETS } from "../contract/acp.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import { allowedCommand, type ExecGate } from "../exec-gate.js";
import type { Asking, Handlers } from "../server/app.js";
import { sessionIdOf } from "../server/requester.js";
import type { Sights } from "../sights.js";
import type { Background } from "../work/background.js";
import { awaitedUnless, mayBeTold, parentOf, taskOf, whomToTell } from "../work/whom.js";
import type { ChannelEntries } from "./channels.js";
import { createAcpReading, visibleAcp, type AcpReadingVerb } from "./acp-reading.js";
import { permissionOf, sessionOf, turnOf } from "./acp-shown.js";

export type AcpVerb =
  | AcpReadingVerb
  | "acpSpawn"
  | "acpPrompt"
  | "acpCancel"
  | "acpClose"
  | "acpAnswer"
  | "acpQuestion";

export interface AcpDesk {
  readonly acp: AcpController;
  readonly store: AcpStore & Pick<TaskStore, "listTasks">;
  readonly background: Background;
  readonly channels: ChannelEntries;
  readonly sessions: Sessions;
  readonly gate: ExecGate;
  readonly sights: Sights;
  readonly mayStart: () => void;
  readonly getRun: (runId: string) => Promise<RunRecord | null>;
  /** Writes a task's id where its agent's run is: it can then be found without the store. Never rejects. */
  readonly noteTask: (sessionId: string, taskId: string) => Promise<void>;
}

const PRESETS: Readonly<Record<(typeof PERMISSION_PRESETS)[number], readonly PermissionRule[]>> = {
  "approve-all": [{ effect: "allow" }],
  "approve-reads": DEFAULT_RULES,
  "deny-all": [{ effect: "reject" }],
};

export function createAcpHandlers(desk: AcpDesk): Pick<Handlers, AcpVerb> {
  const { acp, store } = desk;
  const shown = async (session: AcpSession): Promise<AnswerOf<"acpClose">["session"]> => {
    const row = await desk.sessions.get(session.sessionId);
    return sessionOf(session, row);
  };
  return {
    ...createAcpReading({
      ...desk,
      verifyOwnedTree: (sessionId) => acp.verifyOwnedTree(sessionId),
      stderrOf: (sessionId) => acp.stderrOf(sessionId),
      questionOf: (permission) => acp.questionOf(permission),
    }),

    acpSpawn: async ({ body }, asking) => {
      desk.mayStart();
      mayBeTold(asking.requester, body, desk.channels);
      const earlier = await askedBefore(desk, body.turnId, asking);
      const { session, created } = earlier ?? (await spawn(desk, body, asking));
      const { prompt: text } = body;
      if (text === undefined) return { session: await shown(session), created, turn: null };
      const now = await ask(desk, session, { ...body, text }, asking, earlier?.turn ?? null);
      const row = (await store.getAcpSession(session.sessionId)) ?? session;
      return { session: await shown(row), created, turn: turnOf(now) };
    },

    acpPrompt: async ({ params, body }, asking) => {
      desk.mayStart();
      mayBeTold(asking.requester, body, desk.channels);
      const session = await visibleAcp(desk, asking.requester, params.id);
      const earlier = await askedBefore(desk, body.turnId, asking);
      if (earlier !== null && earlier.session.sessionId !== session.sessionId)
        throw new BadInput("turnId", "another session has a turn with that id; nothing was sent");
      return { turn: turnOf(await ask(desk, session, body, asking, earlier?.turn ?? null)) };
    },

    acpCancel: async ({ params, body: { turnId, reapTools } }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      const turn = await acp.cancelTurn(sessionId, {
        actor: requester.actor,
        reapTools,
        ...(turnId === undefined ? {} : { turnId }),
      });
      return { turn: turn === null ? null : turnOf(turn) };
    },

    acpClose: async ({ params, body }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      const { session, survivors } = await acp.closeSession(sessionId, { actor: requester.actor, ...body });
      const run = session.runId === null ? null : await desk.getRun(session.runId);
      const emptiness = run?.emptiness ?? null;
      return { session: await shown(session), survivors: [...survivors], emptiness };
    },

    acpAnswer: async ({ params, body }, { requester }) => {
      const answer = await acp.answerPermission(params.id, body.verdict, requester.actor, body.digest);
      if (answer === null) throw new NotFound(`permission ${params.id}`);
      const { permission, decided } = answer;
      return { permission: permissionOf(permission, await acp.questionOf(permission)), decided };
    },

    acpQuestion: async ({ params, query }) => {
      const permission = await store.getAcpPermission(params.id);
      if (permission === null) throw new NotFound(`permission ${params.id}`);
      const question = await acp.questionOf(permission);
      const { parts, ...page } =
        question === null ? NO_PAGE : await pageOfQuestion(question, query.page, query.reveal === true);
      return { permission: permissionOf(permission, question), ...page, parts: [...parts] };
    },
  };
}

/** Null: this is the first time. */
async function askedBefore(
  desk: AcpDesk,
  turnId: string | undefined,
  { requester }: Asking,
): Promise<{ readonly session: AcpSession; readonly created: false; readonly turn: AcpTurn } | null> {
  const turn = turnId === undefined ? null : await desk.store.getAcpTurn(turnId);
  if (turn === null) return null;
  const seen = await desk.sights.runsOf(requester)(turn.sessionId);
  const session = seen ? await desk.store.getAcpSession(turn.sessionId) : null;
  if (session === null) throw new BadInput("turnId", "another turn has that id; nothing was sent");
  return { session, created: false, turn };
}

type Prompt = Omit<HeardOf<"acpPrompt">["body"], "turnId"> & { readonly turnId?: string | undefined };

/** Its turn; its end, where it is waited for. What others than the operator at its side asked for is a task. */
async function ask(
  desk: AcpDesk,
  session: AcpSession,
  prompt: Prompt,
  asking: Asking,
  earlier: AcpTurn | null,
): Promise<AcpTurn> {
  const { sessionId } = session;
  const { text, timeoutMs, wait, turnId = newTurnId() } = prompt;
  const request: PromptRequest = {
    text,
    askedBy: asking.requester.actor,
    turnId,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
  const start = async (begun = (): void => undefined, taskId: string | null = null): Promise<AcpTurn> => {
    const turn = earlier ?? (await desk.acp.prompt(sessionId, request));
    // First: updates that come before the task is followed are no progress of it.
    begun();
    if (taskId !== null) await desk.noteTask(sessionId, taskId);
    return wait ? waitForEnd(desk, turn, asking.gone) : turn;
  };
  const work = await acpWork(desk, session, prompt, asking, turnId);
  if (work === null) return start();
  const given = awaitedUnless({ ...prompt, background: !wait }, asking.gone);
  return desk.background.give(work, ({ begun, taskId }) => start(begun, taskId), given);
}

/** Null: an operator's own conversation. */
async function acpWork(
  desk: AcpDesk,
  { sessionId, mode, runId }: AcpSession,
  prompt: Prompt,
  { requester }: Asking,
  turnId: string,
): Promise<TaskInput | null> {
  const row = await desk.sessions.get(sessionId);
  const parentSessionId =
    sessionIdOf(requester) ?? (row === null ? null : await parentOf(desk.sessions, row));
  const { text, wait, background, notify, origin } = prompt;
  const told = background || notify !== undefined || origin !== undefined;
  if (mode === "session" && parentSessionId === null && !told) return null;
  return {
    runtime: "acp",
    key: keyOfTurn(turnId),
    text,
    childSessionId: sessionId,
    agentId: row?.agentId ?? null,
    runId,
    turnId,
    parentTaskId: await taskOf(desk.store, requester),
    ...whomToTell({
      requester,
      said: prompt,
      mode: mode === "run" ? "run" : "interactive",
      parentSessionId,
      readsAlong: !wait && !background,
    }),
  };
}

/** Null fields: nobody has said. */
async function spawn(
  desk: AcpDesk,
  body: HeardOf<"acpSpawn">["body"],
  asking: Asking,
): Promise<Awaited<ReturnType<AcpController["ensureSession"]>>> {
  const { agent, argv, agentId, cwd, mode, permissions, reap, parentSessionKey } = body;
  const { requester, environment, executable } = await starter(desk, body, asking);
  const rules = body.rules ?? (permissions === undefined ? undefined : PRESETS[permissions]);
  return desk.acp.ensureSession({
    key: body.key ?? `acp ${newSessionId().slice(4)}`,
    ...(agent === undefined ? {} : { agent }),
    ...(argv === undefined ? {} : { argv }),
    cwd,
    environment,
    executable,
    mode,
    ...(rules === undefined ? {} : { rules }),
    reap,
    client: body.client,
    requester,
    session: {
      ...(agentId === undefined ? {} : { agentId }),
      ...(parentSessionKey === undefined ? {} : { parentSessionKey, spawnedBy: parentSessionKey }),
    },
  });
}

/** An agent started by a session is its child, and is executed as its exec rules judged it. `requester` null: the operator starts it. */
async function starter(
  { gate, acp }: AcpDesk,
  body: HeardOf<"acpSpawn">["body"],
  asking: Asking,
): Promise<{ readonly requester: SessionRow | null } & Pick<AskedCommand, "environment" | "executable">> {
  const { requester } = asking;
  if (requester.kind === "operator") return { requester: null, environment: body.environment };
  const { session: self } = requester;
  if (body.parentSessionKey !== undefined && body.parentSessionKey !== self.key)
    throw new BadInput(
      "parentSessionKey",
      "a session can only be its own children's parent; nothing was started",
    );
  if (body.client !== undefined)
    throw new BadInput("client", "only the operator says what an agent may use; nothing was started");
  const { argv, env: entrys, passEnv } = acp.commands.asked(body);
  const allowed = await allowedCommand(gate, asking, {
    argv,
    cwd: body.cwd,
    environment: body.environment,
    env: {},
    entry: { env: entrys, passEnv: [...passEnv] },
    stdin: { kind: "pipe" },
  });
  const [executable] = allowed.argv;
  return {
    requester: self,
    environment: allowed.environment,
    ...(executable === argv[0] ? {} : { executable }),
  };
}

async function waitForEnd({ acp, store }: AcpDesk, turn: AcpTurn, gone: AbortSignal): Promise<AcpTurn> {
  const look = async (): Promise<AcpTurn | null> => {
    const now = await store.getAcpTurn(turn.turnId);
    return now?.state === "ended" ? now : null;
  };
  return (await acp.tail.until(turn.sessionId, look, gone)) ?? turn;
}
