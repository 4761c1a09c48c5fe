import type { RouteHandlers } from "../../api/contract.js";
import { omitUndefined } from "../../model/record-type.js";
import { BadInput, NotFound, SessionClosed } from "../../errors.js";
import { withLeases } from "../../queries/agent-runs.js";
import { readSessionHistory, readSessionInbox, readSessionStatus } from "../../queries/sessions.js";
import { closeDescendants, closeOneSession } from "./close-session.js";
import type { HandlerDeps } from "./handler-deps.js";

export function createSessionHandlers(deps: HandlerDeps) {
  const { supervisor, authorizer, history, store, sessions, oneShotAgents, onRead } = deps;
  return {
    openSession: async ({ body: { key, tokenTtlMs, ...options } }) => {
      const { session, created } = await sessions.open(key, omitUndefined(options));
      const token = await sessions.issueToken(session.id, { ttlMs: tokenTtlMs });
      if (token === null) throw new NotFound(`open session ${key}`);
      return { session, created, token };
    },

    rotateToken: async ({ params, body: { tokenTtlMs, graceMs } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id);
      const token = await sessions.rotateToken(session.id, { ttlMs: tokenTtlMs, graceMs });
      if (token === null) throw new SessionClosed(session.id);
      return { session, token };
    },

    listSessions: async ({ query: { all, limit, visibility } }, { requester }) => {
      const filter = { ...(all === true ? {} : { open: true }), limit };
      return {
        sessions: await withLeases(await authorizer.listSessions(requester, filter, visibility), store),
      };
    },

    sessionStatus: async ({ params, query }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, query.visibility);
      return readSessionStatus(session, supervisor, store);
    },

    sessionHistory: async ({ params, query: { visibility, ...wanted } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, visibility);
      return readSessionHistory(session, supervisor, store, wanted);
    },

    sessionInbox: async ({ params, query: { visibility, limit } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, visibility);
      return readSessionInbox(session, store, limit, await oneShotAgents.messagesInPrompt(session));
    },

    acknowledgeInbox: async ({ params, body: { ids } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id);
      const { id, closedAt } = session;
      if (requester.kind === "session" && requester.session.id !== id)
        throw new BadInput(
          "session",
          `only session ${id} itself or the operator may acknowledge its messages; nothing was changed`,
        );
      if (closedAt !== null) throw new SessionClosed(id);
      const taken = await oneShotAgents.messagesInPrompt(session);
      const acknowledged = await history.acknowledge(
        id,
        ids.filter((each) => !taken.has(each)),
      );
      if (acknowledged.length > 0) await onRead(id);
      return { acknowledged: [...acknowledged] };
    },

    sendMessage: async ({ params, body: { text, visibility, deliver } }, { requester }) => {
      const { id } = await authorizer.requireSession(requester, params.id, visibility);
      const from = requester.kind === "session" ? { fromSessionId: requester.session.id } : {};
      const saying = { text, actor: requester.actor, deliver, ...from };
      return { message: await history.send(id, "user", saying) };
    },

    closeSession: async ({ params, query: { reason = null, tree } }, context) => {
      const { requester } = context;
      const session = await authorizer.findSession(requester, params.id);
      if (session === null) return { closed: false, children: [], runs: [] };
      const { closed } = await closeOneSession(deps, session.id, requester.actor, reason);
      return { closed, ...(await closeDescendants(deps, session, { reason, tree: tree === true }, context)) };
    },
  } satisfies Partial<RouteHandlers>;
}
