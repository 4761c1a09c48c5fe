import type { AcpController } from "../../acp/controller.js";
import { BadInput, NotFound } from "../../errors.js";
import { sanitizeText } from "../../output/sanitize.js";
import { newSessionId } from "../../sessions/ids.js";
import type { Sessions } from "../../sessions/sessions.js";
import type {
  AcpPermission,
  AcpSession,
  AcpTurn,
  AcpUpdate,
  PermissionRule,
} from "../../store/acp-record.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { SessionRow } from "../../store/session-record.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import { mustBeAllowed, type ExecGate } from "../exec-gate.js";
import type { Asking, Handlers } from "../server/app.js";
import type { Requester } from "../server/requester.js";
import type { Sights } from "../sights.js";

export type AcpVerb =
  | "acpSpawn"
  | "acpList"
  | "acpShow"
  | "acpPrompt"
  | "acpCancel"
  | "acpClose"
  | "acpHistory"
  | "acpWatch"
  | "acpPermissions"
  | "acpAnswer";

export interface AcpDesk {
  readonly acp: AcpController;
  readonly store: AcpStore;
  readonly sessions: Sessions;
  readonly gate: ExecGate;
  readonly sights: Sights;
  readonly mayStart: () => void;
}

const PRESETS: Readonly<Record<string, readonly PermissionRule[]>> = {
  "approve-all": [{ effect: "allow" }],
  "approve-reads": [
    { effect: "allow", kind: "read" },
    { effect: "allow", kind: "search" },
    { effect: "ask" },
  ],
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
    acpSpawn: async ({ body }, asking) => {
      desk.mayStart();
      const { session, created } = await spawn(desk, body, asking);
      const { prompt: text, timeoutMs, wait } = body;
      if (text === undefined) return { session: await shown(session), created, turn: null };
      const turn = await acp.prompt(session.sessionId, {
        text,
        askedBy: asking.requester.actor,
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      });
      const now = wait ? await ended(turn, asking) : turn;
      const row = (await store.getAcpSession(session.sessionId)) ?? session;
      return { session: await shown(row), created, turn: turnOf(now) };
    },

    acpList: async ({ query: { all, limit } }, { requester }) => {
      const open = all === true ? {} : { open: true };
      const found = await store.listAcpSessions({
        ...open,
        ...(requester.kind === "operator" ? { limit } : {}),
      });
      const sessions = [];
      const seen = desk.sights.runsOf(requester);
      for (const session of found) {
        if (sessions.length === limit) break;
        if (await seen(session.sessionId)) sessions.push(await shown(session));
      }
      return { sessions };
    },

    acpShow: async ({ params }, { requester }) => {
      const session = await visibleAcp(desk, requester, params.id);
      const { sessionId } = session;
      const open = await store.listAcpTurns({ sessionId, states: ["running", "queued"] });
      const last = await store.listAcpTurns({ sessionId, states: ["ended"], newestFirst: true, limit: 1 });
      const { verified, why, processes } = await acp.verifyOwnedTree(sessionId);
      return {
        session: await shown(session),
        turns: [...open, ...last].map(turnOf),
        permissions: (await store.listAcpPermissions({ sessionId, pending: true })).map(permissionOf),
        capabilities: session.capabilities,
        stderr: acp.stderrOf(sessionId),
        tree: {
          verified,
          why,
          processes: processes.map(({ identity, command }) => ({ ...identity, command })),
        },
      };
    },

    acpPrompt: async ({ params, body }, asking) => {
      desk.mayStart();
      const { sessionId } = await visibleAcp(desk, asking.requester, params.id);
      const { text, timeoutMs, wait } = body;
      const turn = await acp.prompt(sessionId, {
        text,
        askedBy: asking.requester.actor,
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      });
      return { turn: turnOf(wait ? await ended(turn, asking) : turn) };
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
      return { session: await shown(session), survivors: [...survivors] };
    },

    acpHistory: async ({ params, query: { limit } }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      return { turns: (await store.listAcpTurns({ sessionId, newestFirst: true, limit })).map(turnOf) };
    },

    acpWatch: async ({ params, query: { after, limit } }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      const updates = await store.listAcpUpdates({ sessionId, after, limit });
      return { updates: updates.map(updateOf), after: updates.at(-1)?.seq ?? after };
    },

    acpPermissions: async ({ query: { session, all, limit } }, { requester }) => {
      const of =
        session === undefined ? {} : { sessionId: (await visibleAcp(desk, requester, session)).sessionId };
      const pending = all === true ? {} : { pending: true };
      const permissions = [];
      const seen = desk.sights.runsOf(requester);
      for (const permission of await store.listAcpPermissions({ ...of, ...pending })) {
        if (permissions.length === limit) break;
        if (await seen(permission.sessionId)) permissions.push(permissionOf(permission));
      }
      return { permissions };
    },

    acpAnswer: async ({ params, body }, { requester }) => {
      const answer = await acp.answerPermission(params.id, body.verdict, requester.actor);
      if (answer === null) throw new NotFound(`permission ${params.id}`);
      return { permission: permissionOf(answer.permission), decided: answer.decided };
    },
  };
}

/** By its id or its key. What is not there and what may not be seen answer alike. */
export async function visibleAcp(
  { store, sights }: Pick<AcpDesk, "store" | "sights">,
  requester: Requester,
  id: string,
): Promise<AcpSession> {
  const { id: sessionId } = await sights.session(requester, id);
  const session = await store.getAcpSession(sessionId);
  if (session === null) throw new NotFound(`ACP session ${id}`);
  return session;
}

/** Null fields: nobody has said. */
async function spawn(
  desk: AcpDesk,
  body: HeardOf<"acpSpawn">["body"],
  asking: Asking,
): Promise<Awaited<ReturnType<AcpController["ensureSession"]>>> {
  const { agent, argv, agentId, cwd, environment, mode, permissions, reap, parentSessionKey } = body;
  const requester = await starter(desk, body, asking);
  const rules = body.rules ?? PRESETS[permissions ?? "approve-reads"] ?? [];
  return desk.acp.ensureSession({
    key: body.key ?? `acp ${newSessionId().slice(4)}`,
    ...(agent === undefined ? {} : { agent }),
    ...(argv === undefined ? {} : { argv }),
    cwd,
    ...(environment === undefined ? {} : { environment }),
    mode,
    rules,
    reap,
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
  const argv = acp.argvFor(body);
  const env = body.environment ?? (process.env as Record<string, string>);
  await mustBeAllowed(gate, asking, { argv, cwd: body.cwd, env });
  return self;
}

async function waitForEnd({ acp, store }: AcpDesk, turn: AcpTurn, gone: AbortSignal): Promise<AcpTurn> {
  const look = async (): Promise<AcpTurn | null> => {
    const now = await store.getAcpTurn(turn.turnId);
    return now?.state === "ended" ? now : null;
  };
  return (await acp.tail.until(turn.sessionId, look, gone)) ?? turn;
}

function sessionOf(session: AcpSession, row: SessionRow | null): AnswerOf<"acpClose">["session"] {
  const { argv: _argv, tmpdir: _tmpdir, capabilities: _capabilities, ...rest } = session;
  const { end: _end, sending: _sending, pending: _pending, rules, ...shown } = rest;
  return { ...shown, rules: [...rules], key: row?.key ?? "", agentId: row?.agentId ?? null };
}

/** Text of an agent's: nothing in it may move a terminal's cursor. The raw frames are in the updates. */
function turnOf(turn: AcpTurn): AnswerOf<"acpPrompt">["turn"] {
  const { before: _before, requestId: _request, audit, ...rest } = turn;
  return {
    ...rest,
    text: sanitizeText(turn.text),
    toolCalls: turn.toolCalls.map((call) => ({ ...call, title: sanitizeText(call.title) })),
    audit: audit === null ? null : { ...audit, left: [...audit.left], survivors: [...audit.survivors] },
  };
}

export function updateOf({
  seq,
  turnId,
  at,
  type,
  data,
}: AcpUpdate): AnswerOf<"acpWatch">["updates"][number] {
  return { seq, turnId, at, type, data };
}

function permissionOf(permission: AcpPermission): AnswerOf<"acpAnswer">["permission"] {
  const { rpcId: _rpc, answered: _answered, ...rest } = permission;
  return {
    ...rest,
    title: rest.title === null ? null : sanitizeText(rest.title),
    options: rest.options.map((option) => ({ ...option, name: sanitizeText(option.name) })),
  };
}
