import type { VerifiedProcessTree } from "../acp/agent/process-tree.js";
import type { ResponseOf, RouteHandlers } from "../api/contract.js";
import { attachmentOf } from "../acp/turn/prompt-content.js";
import { recordedClientAccess } from "../config/agents.js";
import { defaults } from "../defaults.js";
import { NotFound } from "../errors.js";
import type { Elicitation } from "../model/acp/elicitation.js";
import type { AcpPermissionRequest, AcpSession, AcpTurn, AcpUpdate } from "../model/acp/session-and-turn.js";
import type { AgentState } from "../model/acp/agent-state.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import { type ApprovalQuestion, questionHead } from "../sessions/approval-question.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Requester } from "../sessions/requester.js";
import type { Sessions } from "../sessions/sessions.js";
import { agentRun, agentRuns, leaseOf, type RunLookup } from "./agent-runs.js";
import type { AcpSessionFilter, AcpStore } from "../store/acp/contract.js";
import { displayCommand, redactText } from "../text/redact.js";
import { sanitizeText } from "../text/sanitize.js";
import { lastChars } from "../text/truncate.js";

/** `run`: the last run of its agent. */
export function acpSessionResponse(
  session: AcpSession,
  row: SessionRecord | null,
  run: RunRecord | null,
): ResponseOf<"acpClose">["session"] {
  const { argv: _argv, tmpdir: _tmpdir, capabilities: _capabilities, ...more } = session;
  const { agentState: _agentState, settings: _settings, ...rest } = more;
  const { end: _end, sending: _sending, pending: _pending, rules, mcpServers, ...shown } = rest;
  return {
    ...shown,
    rules: [...rules],
    mcpServers: mcpServers.map(mcpServerResponse),
    key: row?.key ?? "",
    agentId: row?.agentId ?? null,
    closedBy: row?.closedBy ?? null,
    closeReason: row?.closeReason ?? null,
    ...leaseOf(run),
  };
}

/** Sanitized: nothing in an agent's text may move a terminal's cursor. */
export function agentStateResponse(state: AgentState | null): ResponseOf<"acpSet">["agentState"] {
  if (state === null) return null;
  const text = JSON.stringify(state);
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === "string" ? sanitizeText(value) : value,
  ) as ResponseOf<"acpSet">["agentState"];
}

function mcpServerResponse(
  server: AcpSession["mcpServers"][number],
): ResponseOf<"acpClose">["session"]["mcpServers"][number] {
  const { name } = server;
  if ("type" in server) {
    const given = server.headers.map((each) => each.name);
    return { name, transport: server.type, target: redactText(server.url), given };
  }
  const target = displayCommand([server.command, ...server.args]);
  return { name, transport: "stdio", target, given: server.env.map((each) => each.name) };
}

/** A turn with the newest part of its text. */
export function acpTurnResponse(turn: AcpTurn): ResponseOf<"acpPrompt">["turn"] {
  const text = lastChars(turn.text, defaults.acpTextChars);
  return wholeTurnResponse({
    ...turn,
    text,
    omittedChars: turn.omittedChars + turn.text.length - text.length,
  });
}

/** Sanitized: nothing in an agent's text may move a terminal's cursor. The raw frames are in the updates. */
function wholeTurnResponse(turn: AcpTurn): ResponseOf<"acpPrompt">["turn"] {
  const { before: _before, requestId: _request, audit, content, ...rest } = turn;
  return {
    ...rest,
    attachments: (content ?? []).map(attachmentOf),
    text: sanitizeText(turn.text),
    toolCalls: turn.toolCalls.map((call) => ({ ...call, title: sanitizeText(call.title) })),
    audit: audit === null ? null : { ...audit, left: [...audit.left], survivors: [...audit.survivors] },
  };
}

export function acpUpdateResponse({
  seq,
  turnId,
  at,
  type,
  data,
}: AcpUpdate): ResponseOf<"acpWatch">["updates"][number] {
  return { seq, turnId, at, type, data };
}

/** `question`: the question, if it is pending at this gateway. `sessionKey`: the name of its session. */
export function acpPermissionResponse(
  permission: AcpPermissionRequest,
  question: ApprovalQuestion | null,
  sessionKey: string,
): ResponseOf<"acpAnswer">["permission"] {
  const { rpcId: _rpc, inputDigest: _digest, answered: _answered, ...rest } = permission;
  const title = question?.summary ?? rest.title;
  return {
    ...rest,
    sessionKey,
    title: title === null ? null : sanitizeText(title),
    question: question === null ? null : questionHead(question),
    options: rest.options.map((option) => ({ ...option, name: sanitizeText(option.name) })),
  };
}

/** Texts of an agent's: nothing in them may move a terminal's cursor. Names and values are what the agent is answered with. */
export function acpElicitationResponse(asked: Elicitation | null): ResponseOf<"acpQuestion">["form"] {
  if (asked === null) return null;
  const shown = (text: string | null): string | null => (text === null ? null : sanitizeText(text));
  const fields = asked.fields.map((field) => ({
    ...field,
    title: shown(field.title),
    description: shown(field.description),
    default: typeof field.default === "object" && field.default !== null ? [...field.default] : field.default,
    choices: field.choices?.map(({ value, title }) => ({ value, title: shown(title) })) ?? null,
  }));
  return { ...asked, message: sanitizeText(asked.message), fields };
}

export type AcpQueryVerb = "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions";

interface AcpQueryDeps {
  readonly store: Pick<
    AcpStore,
    | "getAcpSession"
    | "getAcpTurn"
    | "listAcpSessions"
    | "listAcpTurns"
    | "listAcpUpdates"
    | "listAcpPermissionRequests"
  > &
    RunLookup;
  readonly sessions: Pick<Sessions, "get">;
  readonly authorizer: Pick<Authorizer, "requireSession" | "sessionScope">;
  readonly stderrOf: (sessionId: string) => string;
  /** Null: the question does not wait at this gateway. */
  readonly questionOf: (permission: AcpPermissionRequest) => Promise<ApprovalQuestion | null>;
  /** True if the agent's process has ended and the session does not have that on record yet. */
  readonly isAgentGone: (session: AcpSession) => Promise<boolean>;
  readonly verifyOwnedTree: (sessionId: string) => Promise<Omit<VerifiedProcessTree, "runId">>;
}

/** States in which the agent's process is alive on record. */
const HAS_AGENT: readonly AcpSession["state"][] = ["starting", "ready"];

/** The session as it will be once the end of its agent is recorded. */
function withoutAgent(session: AcpSession): AcpSession {
  const problem = { code: "ACP_CLOSED", message: "the agent's process has ended" };
  return { ...session, state: "down", problem: session.problem ?? problem };
}

/** Read-only handlers, used by the gateway and, without a gateway, on the store alone. */
export function createAcpQueries(deps: AcpQueryDeps): Pick<RouteHandlers, AcpQueryVerb> {
  const { store } = deps;
  const shown = async (session: AcpSession, run: RunRecord | null) =>
    acpSessionResponse(
      HAS_AGENT.includes(session.state) && (await deps.isAgentGone(session))
        ? withoutAgent(session)
        : session,
      await deps.sessions.get(session.sessionId),
      run,
    );
  const withQuestion = async (
    permission: AcpPermissionRequest,
  ): Promise<ReturnType<typeof acpPermissionResponse>> =>
    acpPermissionResponse(
      permission,
      await deps.questionOf(permission),
      (await deps.sessions.get(permission.sessionId))?.key ?? "",
    );
  const seenBy = (requester: Requester): Pick<AcpSessionFilter, "seenBy"> => {
    const scope = deps.authorizer.sessionScope(requester);
    return scope === null ? {} : { seenBy: scope };
  };
  return {
    acpList: async ({ query: { all, name, limit } }, { requester }) => {
      if (name !== undefined) {
        const named = await requireAcpSession(deps, requester, name);
        return { sessions: [await shown(named, await agentRun(store, named))] };
      }
      const open = all === true ? {} : { open: true };
      const found = await store.listAcpSessions({ ...open, ...seenBy(requester), limit });
      const runs = await agentRuns(store, found);
      const sessions = [];
      for (const session of found) sessions.push(await shown(session, runs.get(session.runId ?? "") ?? null));
      return { sessions };
    },

    acpShow: async ({ params }, { requester }) => {
      const session = await requireAcpSession(deps, requester, params.id);
      const { sessionId } = session;
      const open = await store.listAcpTurns({ sessionId, states: ["running", "queued"] });
      const last = await store.listAcpTurns({ sessionId, states: ["ended"], newestFirst: true, limit: 1 });
      const offer = recordedClientAccess(await store.listAcpUpdates({ sessionId, limit: 1 }));
      const { verified, why, processes } = await deps.verifyOwnedTree(sessionId);
      return {
        session: await shown(session, await agentRun(store, session)),
        turns: [...open, ...last].map(acpTurnResponse),
        permissions: await Promise.all(
          (await store.listAcpPermissionRequests({ sessionId, pending: true })).map(withQuestion),
        ),
        capabilities: session.capabilities,
        agentState: agentStateResponse(session.agentState),
        settings: session.settings as ResponseOf<"acpShow">["settings"],
        client: { ...offer, roots: [...offer.roots] },
        stderr: deps.stderrOf(sessionId),
        tree: {
          verified,
          why,
          processes: processes.map(({ identity, command }) => ({ ...identity, command })),
        },
      };
    },

    acpHistory: async ({ params, query: { turn, limit } }, { requester }) => {
      const { sessionId } = await requireAcpSession(deps, requester, params.id);
      if (turn === undefined) return { turns: await listTurns(store, sessionId, limit) };
      const one = await store.getAcpTurn(turn);
      return { turns: one?.sessionId === sessionId ? [wholeTurnResponse(one)] : [] };
    },

    acpWatch: async ({ params, query: { after, limit } }, { requester }) => {
      const { sessionId } = await requireAcpSession(deps, requester, params.id);
      const maxBytes = defaults.acpPageBytes;
      const updates = await store.listAcpUpdates({ sessionId, after, limit, maxBytes });
      return { updates: updates.map(acpUpdateResponse), after: updates.at(-1)?.seq ?? after };
    },

    acpPermissions: async ({ query: { session, all, limit } }, { requester }) => {
      const of =
        session === undefined
          ? {}
          : { sessionId: (await requireAcpSession(deps, requester, session)).sessionId };
      const pending = all === true ? {} : { pending: true };
      const found = await store.listAcpPermissionRequests({ ...of, ...pending, ...seenBy(requester), limit });
      return { permissions: await Promise.all(found.map(withQuestion)) };
    },
  };
}

/** Turns read at once: their texts may be long. */
const TURN_PAGE = 10;

/** The newest turns. */
async function listTurns(
  store: Pick<AcpStore, "listAcpTurns">,
  sessionId: string,
  limit: number,
): Promise<ReturnType<typeof acpTurnResponse>[]> {
  const turns: ReturnType<typeof acpTurnResponse>[] = [];
  for (let before: number | undefined; turns.length < limit;) {
    const size = Math.min(TURN_PAGE, limit - turns.length);
    const filter = { sessionId, newestFirst: true, limit: size };
    const page = await store.listAcpTurns(before === undefined ? filter : { ...filter, before });
    turns.push(...page.map(acpTurnResponse));
    before = page.at(-1)?.place;
    if (page.length < size) break;
  }
  return turns;
}

/** Finds a session by id or key. Rejects with NotFound also if the requester may not see it. */
export async function requireAcpSession(
  {
    store,
    authorizer,
  }: Pick<AcpQueryDeps, "authorizer"> & { readonly store: Pick<AcpStore, "getAcpSession"> },
  requester: Requester,
  id: string,
): Promise<AcpSession> {
  const { id: sessionId } = await authorizer.requireSession(requester, id);
  const session = await store.getAcpSession(sessionId);
  if (session === null) throw new NotFound(`ACP session ${id}`);
  return session;
}
