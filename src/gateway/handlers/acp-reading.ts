import type { OwnedTree } from "../../acp/owned-tree.js";
import { offerOf } from "../../acp/client/offer.js";
import { defaults } from "../../defaults.js";
import { NotFound } from "../../errors.js";
import type { Question } from "../../sessions/question.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpPermission, AcpSession } from "../../store/acp-record.js";
import type { AcpSessionFilter, AcpStore } from "../../store/acp-store.js";
import type { Handlers } from "../server/app.js";
import type { Requester } from "../server/requester.js";
import type { Sights } from "../sights.js";
import { permissionOf, sessionOf, turnOf, updateOf } from "./acp-shown.js";

export type AcpReadingVerb = "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions";

export interface AcpReadingDesk {
  readonly store: Pick<
    AcpStore,
    | "getAcpSession"
    | "getAcpTurn"
    | "listAcpSessions"
    | "listAcpTurns"
    | "listAcpUpdates"
    | "listAcpPermissions"
  >;
  readonly sessions: Pick<Sessions, "get">;
  readonly sights: Pick<Sights, "session" | "scopeOf">;
  readonly stderrOf: (sessionId: string) => string;
  /** Null: the question does not wait at this gateway. */
  readonly questionOf: (permission: AcpPermission) => Promise<Question | null>;
  readonly verifyOwnedTree: (sessionId: string) => Promise<Omit<OwnedTree, "runId">>;
}

/** What changes nothing: the same with a gateway, and from the store alone. */
export function createAcpReading(desk: AcpReadingDesk): Pick<Handlers, AcpReadingVerb> {
  const { store } = desk;
  const shown = async (session: AcpSession): Promise<ReturnType<typeof sessionOf>> =>
    sessionOf(session, await desk.sessions.get(session.sessionId));
  const withQuestion = async (permission: AcpPermission): Promise<ReturnType<typeof permissionOf>> =>
    permissionOf(permission, await desk.questionOf(permission));
  const seenBy = (requester: Requester): Pick<AcpSessionFilter, "seenBy"> => {
    const scope = desk.sights.scopeOf(requester);
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
      const session = await visibleAcp(desk, requester, params.id);
      const { sessionId } = session;
      const open = await store.listAcpTurns({ sessionId, states: ["running", "queued"] });
      const last = await store.listAcpTurns({ sessionId, states: ["ended"], newestFirst: true, limit: 1 });
      const offer = offerOf(await store.listAcpUpdates({ sessionId, limit: 1 }));
      const { verified, why, processes } = await desk.verifyOwnedTree(sessionId);
      return {
        session: await shown(session),
        turns: [...open, ...last].map(turnOf),
        permissions: await Promise.all(
          (await store.listAcpPermissions({ sessionId, pending: true })).map(withQuestion),
        ),
        capabilities: session.capabilities,
        client: { ...offer, roots: [...offer.roots] },
        stderr: desk.stderrOf(sessionId),
        tree: {
          verified,
          why,
          processes: processes.map(({ identity, command }) => ({ ...identity, command })),
        },
      };
    },

    acpHistory: async ({ params, query: { turn, limit } }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      if (turn === undefined)
        return { turns: (await store.listAcpTurns({ sessionId, newestFirst: true, limit })).map(turnOf) };
      const one = await store.getAcpTurn(turn);
      return { turns: one?.sessionId === sessionId ? [turnOf(one)] : [] };
    },

    acpWatch: async ({ params, query: { after, limit } }, { requester }) => {
      const { sessionId } = await visibleAcp(desk, requester, params.id);
      const maxBytes = defaults.acpPageBytes;
      const updates = await store.listAcpUpdates({ sessionId, after, limit, maxBytes });
      return { updates: updates.map(updateOf), after: updates.at(-1)?.seq ?? after };
    },

    acpPermissions: async ({ query: { session, all, limit } }, { requester }) => {
      const of =
        session === undefined ? {} : { sessionId: (await visibleAcp(desk, requester, session)).sessionId };
      const pending = all === true ? {} : { pending: true };
      const found = await store.listAcpPermissions({ ...of, ...pending, ...seenBy(requester), limit });
      return { permissions: await Promise.all(found.map(withQuestion)) };
    },
  };
}

/** By its id or its key. What is not there and what may not be seen answer alike. */
export async function visibleAcp(
  { store, sights }: Pick<AcpReadingDesk, "sights"> & { readonly store: Pick<AcpStore, "getAcpSession"> },
  requester: Requester,
  id: string,
): Promise<AcpSession> {
  const { id: sessionId } = await sights.session(requester, id);
  const session = await store.getAcpSession(sessionId);
  if (session === null) throw new NotFound(`ACP session ${id}`);
  return session;
}
