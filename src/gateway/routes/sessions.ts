import type { Verb } from "../../api/contract.js";
import { BadInput, NotFound, SessionClosed } from "../../errors.js";
import { readSessionHistory, readSessionInbox, readSessionStatus } from "../../queries/sessions.js";
import { type RouteHandlers, omitUndefined } from "../../api/handler.js";
import type { HandlerDeps } from "./deps.js";

type SessionVerb = Extract<
  Verb,
  | "openSession"
  | "rotateToken"
  | "listSessions"
  | "sessionStatus"
  | "sessionHistory"
  | "sessionInbox"
  | "acknowledgeInbox"
  | "sendMessage"
  | "closeSession"
>;

export function createSessionHandlers({
  supervisor,
  authorizer,
  history,
  records,
  oneShotAgents,
  onRead,
  closeAgent,
  execAuth: { sessions },
}: Pick<
  HandlerDeps,
  "supervisor" | "authorizer" | "history" | "records" | "oneShotAgents" | "onRead" | "closeAgent" | "execAuth"
>): Pick<RouteHandlers, SessionVerb> {
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
      return { sessions: [...(await authorizer.listSessions(requester, filter, visibility))] };
    },

    sessionStatus: async ({ params, query }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, query.visibility);
      return readSessionStatus(session, supervisor, records);
    },

    sessionHistory: async ({ params, query: { visibility, ...wanted } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, visibility);
      return readSessionHistory(session, supervisor, records, wanted);
    },

    sessionInbox: async ({ params, query: { visibility, limit } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id, visibility);
      return readSessionInbox(session, records, limit, await oneShotAgents.messagesInPrompt(session));
    },

    acknowledgeInbox: async ({ params, body: { ids } }, { requester }) => {
      const session = await authorizer.requireSession(requester, params.id);
      const { id, closedAt } = session;
      if (requester.kind === "session" && requester.session.id !== id)
        throw new BadInput(
          "session",
          `what waits for session ${id} is acknowledged by itself or the operator; nothing was changed`,
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

    closeSession: async ({ params }, { requester }) => {
      const id = (await authorizer.findSession(requester, params.id))?.id ?? params.id;
      // The agent must not outlive its session.
      const agents = await closeAgent(id, requester.actor);
      return { closed: (await sessions.close(id, requester.actor)) || agents };
    },
  };
}
