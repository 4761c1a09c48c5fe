import { DEFAULT_RULES, type AcpController } from "../../acp/controller.js";
import type { PromptRequest } from "../../acp/prompt-queue.js";
import { BadInput, NotFound } from "../../errors.js";
import { newSessionId } from "../../sessions/ids.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpSession, AcpTurn, PermissionRule } from "../../store/acp-record.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { RunRecord } from "../../store/run-record.js";
import type { SessionRow } from "../../store/session-record.js";
import type { PERMISSION_PRESETS } from "../contract/acp.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import { judgedEnvironment, mustBeAllowed, type ExecGate } from "../exec-gate.js";
import type { Asking, Handlers } from "../server/app.js";
import type { Sights } from "../sights.js";
import { createAcpReading, visibleAcp, type AcpReadingVerb } from "./acp-reading.js";
import { permissionOf, sessionOf, turnOf } from "./acp-shown.js";

export type AcpVerb = AcpReadingVerb | "acpSpawn" | "acpPrompt" | "acpCancel" | "acpClose" | "acpAnswer";

export interface AcpDesk {
  readonly acp: AcpController;
  readonly store: AcpStore;
  readonly sessions: Sessions;
  readonly gate: ExecGate;
  readonly sights: Sights;
  readonly mayStart: () => void;
  readonly getRun: (runId: string) => Promise<RunRecord | null>;
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
  const ended = (turn: AcpTurn, { gone }: Asking): Promise<AcpTurn> => waitForEnd(desk, turn, gone);
  return {
    ...createAcpReading({
      ...desk,
      verifyOwnedTree: (sessionId) => acp.verifyOwnedTree(sessionId),
      stderrOf: (sessionId) => acp.stderrOf(sessionId),
    }),

    acpSpawn: async ({ body }, asking) => {
      desk.mayStart();
      const earlier = await askedBefore(desk, body.turnId, asking);
      const { session, created } = earlier ?? (await spawn(desk, body, asking));
      const { prompt: text, wait } = body;
      if (text === undefined) return { session: await shown(session), created, turn: null };
      const turn =
        earlier?.turn ?? (await acp.prompt(session.sessionId, promptOf({ ...body, text }, asking)));
      const now = wait ? await ended(turn, asking) : turn;
      const row = (await store.getAcpSession(session.sessionId)) ?? session;
      return { session: await shown(row), created, turn: turnOf(now) };
    },

    acpPrompt: async ({ params, body }, asking) => {
      desk.mayStart();
      const { sessionId } = await visibleAcp(desk, asking.requester, params.id);
      const earlier = await askedBefore(desk, body.turnId, asking);
      if (earlier !== null && earlier.session.sessionId !== sessionId)
        throw new BadInput("turnId", "another session has a turn with that id; nothing was sent");
      const turn = earlier?.turn ?? (await acp.prompt(sessionId, promptOf(body, asking)));
      return { turn: turnOf(body.wait ? await ended(turn, asking) : turn) };
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
      const answer = await acp.answerPermission(params.id, body.verdict, requester.actor);
      if (answer === null) throw new NotFound(`permission ${params.id}`);
      return { permission: permissionOf(answer.permission), decided: answer.decided };
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

function promptOf(
  { text, turnId, timeoutMs }: Pick<HeardOf<"acpPrompt">["body"], "text" | "turnId" | "timeoutMs">,
  { requester }: Asking,
): PromptRequest {
  return {
    text,
    askedBy: requester.actor,
    ...(turnId === undefined ? {} : { turnId }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
}

/** Null fields: nobody has said. */
async function spawn(
  desk: AcpDesk,
  body: HeardOf<"acpSpawn">["body"],
  asking: Asking,
): Promise<Awaited<ReturnType<AcpController["ensureSession"]>>> {
  const { agent, argv, agentId, cwd, environment, mode, permissions, reap, parentSessionKey } = body;
  const requester = await starter(desk, body, asking);
  const rules = body.rules ?? (permissions === undefined ? undefined : PRESETS[permissions]);
  return desk.acp.ensureSession({
    key: body.key ?? `acp ${newSessionId().slice(4)}`,
    ...(agent === undefined ? {} : { agent }),
    ...(argv === undefined ? {} : { argv }),
    cwd,
    ...(environment === undefined ? {} : { environment }),
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

/** What a session starts is its own, and only what it may execute. Null: the operator starts it. */
async function starter(
  { gate, acp }: AcpDesk,
  body: HeardOf<"acpSpawn">["body"],
  asking: Asking,
): Promise<SessionRow | null> {
  const { requester } = asking;
  if (requester.kind === "operator") return null;
  const { session: self } = requester;
  if (body.parentSessionKey !== undefined && body.parentSessionKey !== self.key)
    throw new BadInput(
      "parentSessionKey",
      "a session can only be its own children's parent; nothing was started",
    );
  if (body.client !== undefined)
    throw new BadInput("client", "only the operator says what an agent may use; nothing was started");
  const { argv, env: entrys } = acp.commands.asked(body);
  await mustBeAllowed(gate, asking, {
    argv,
    cwd: body.cwd,
    env: judgedEnvironment(body.environment, entrys),
  });
  return self;
}

async function waitForEnd({ acp, store }: AcpDesk, turn: AcpTurn, gone: AbortSignal): Promise<AcpTurn> {
  const look = async (): Promise<AcpTurn | null> => {
    const now = await store.getAcpTurn(turn.turnId);
    return now?.state === "ended" ? now : null;
  };
  return (await acp.tail.until(turn.sessionId, look, gone)) ?? turn;
}
