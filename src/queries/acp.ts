import type { VerifiedProcessTree } from "../acp/agent/turn-process-audit.js";
import type { ResponseOf, RouteHandlers } from "../api/contract.js";
import { recordedClientAccess } from "../config/client-access.js";
import { defaults } from "../defaults.js";
import { NotFound } from "../errors.js";
import type { AcpSession } from "../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../model/acp/permission-request.js";
import type { RunRecord } from "../model/run.js";
import type { ApprovalQuestion } from "../sessions/approval-question.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Requester } from "../sessions/requester.js";
import type { Sessions } from "../sessions/sessions.js";
import { agentRun, agentRuns, type RunLookup } from "./agent-runs.js";
import type { AcpSessionFilter, AcpStore } from "../store/acp/contract.js";
import {
  acpSessionResponse,
  wholeTurnResponse,
  agentStateResponse,
  acpTurnResponse,
  acpUpdateResponse,
  acpPermissionResponse,
} from "./acp-responses.js";

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

    acpPermissions: async ({ query: { session, all, decided, limit } }, { requester }) => {
      const of =
        session === undefined
          ? {}
          : { sessionId: (await requireAcpSession(deps, requester, session)).sessionId };
      const which =
        decided === true ? { pending: false, newestFirst: true } : all === true ? {} : { pending: true };
      const found = await store.listAcpPermissionRequests({ ...of, ...which, ...seenBy(requester), limit });
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
