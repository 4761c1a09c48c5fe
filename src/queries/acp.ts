import type { VerifiedProcessTree } from "../acp/agent/process-tree.js";
import { recordedClientAccess } from "../config/client-access.js";
import { defaults } from "../defaults.js";
import { NotFound } from "../errors.js";
import type { ApprovalQuestion } from "../sessions/approval-question.js";
import type { Sessions } from "../sessions/sessions.js";
import type { AcpPermissionRequest, AcpSession } from "../model/acp.js";
import type { AcpSessionFilter, AcpStore } from "../store/acp/store.js";
import type { RouteHandlers } from "../gateway/server/router.js";
import type { Requester } from "../sessions/requester.js";
import type { Authorizer } from "../sessions/authorizer.js";
import {
  acpPermissionResponse,
  acpSessionResponse,
  acpTurnResponse,
  acpUpdateResponse,
} from "../gateway/handlers/acp-shown.js";

export type AcpQueryVerb = "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions";

export interface AcpQueryDeps {
  readonly store: Pick<
    AcpStore,
    | "getAcpSession"
    | "getAcpTurn"
    | "listAcpSessions"
    | "listAcpTurns"
    | "listAcpUpdates"
    | "listAcpPermissionRequests"
  >;
  readonly sessions: Pick<Sessions, "get">;
  readonly authorizer: Pick<Authorizer, "requireSession" | "sessionScope">;
  readonly stderrOf: (sessionId: string) => string;
  /** Null: the question does not wait at this gateway. */
  readonly questionOf: (permission: AcpPermissionRequest) => Promise<ApprovalQuestion | null>;
  readonly verifyOwnedTree: (sessionId: string) => Promise<Omit<VerifiedProcessTree, "runId">>;
}

/** What changes nothing: the same with a gateway, and from the store alone. */
export function createAcpQueries(deps: AcpQueryDeps): Pick<RouteHandlers, AcpQueryVerb> {
  const { store } = deps;
  const shown = async (session: AcpSession): Promise<ReturnType<typeof acpSessionResponse>> =>
    acpSessionResponse(session, await deps.sessions.get(session.sessionId));
  const withQuestion = async (
    permission: AcpPermissionRequest,
  ): Promise<ReturnType<typeof acpPermissionResponse>> =>
    acpPermissionResponse(permission, await deps.questionOf(permission));
  const seenBy = (requester: Requester): Pick<AcpSessionFilter, "seenBy"> => {
    const scope = deps.authorizer.sessionScope(requester);
    return scope === null ? {} : { seenBy: scope };
  };
  return {
    acpList: async ({ query: { all, limit } }, { requester }) => {
      const open = all === true ? {} : { open: true };
      const sessions = [];
      for (const session of await store.listAcpSessions({ ...open, ...seenBy(requester), limit }))
        sessions.push(await shown(session));
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
        session: await shown(session),
        turns: [...open, ...last].map(acpTurnResponse),
        permissions: await Promise.all(
          (await store.listAcpPermissionRequests({ sessionId, pending: true })).map(withQuestion),
        ),
        capabilities: session.capabilities,
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
      if (turn === undefined)
        return {
          turns: (await store.listAcpTurns({ sessionId, newestFirst: true, limit })).map(acpTurnResponse),
        };
      const one = await store.getAcpTurn(turn);
      return { turns: one?.sessionId === sessionId ? [acpTurnResponse(one)] : [] };
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

/** By its id or its key. What is not there and what may not be seen answer alike. */
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
