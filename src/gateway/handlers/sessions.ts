import { NotFound } from "../../errors.js";
import type { Verb } from "../contract/contract.js";
import type { Handlers } from "../server/app.js";
import { defined } from "./defined.js";
import type { Desk } from "./handlers.js";
import { historyOf, statusOf } from "./session-told.js";

type SessionVerb = Extract<
  Verb,
  "openSession" | "listSessions" | "sessionStatus" | "sessionHistory" | "sendMessage" | "closeSession"
>;

export function sessionHandlers({
  supervisor,
  sights,
  history,
  records,
  closeAgent,
  gate: { sessions },
}: Pick<Desk, "supervisor" | "sights" | "history" | "records" | "closeAgent" | "gate">): Pick<
  Handlers,
  SessionVerb
> {
  return {
    openSession: async ({ body: { key, ...options } }) => {
      const { session, created } = await sessions.open(key, defined(options));
      const token = await sessions.issueToken(session.id);
      if (token === null) throw new NotFound(`open session ${key}`);
      return { session, created, token };
    },

    listSessions: async ({ query: { all, limit, visibility } }, { requester }) => {
      const filter = { ...(all === true ? {} : { open: true }), limit };
      return { sessions: [...(await sights.sessions(requester, filter, visibility))] };
    },

    sessionStatus: async ({ params, query }, { requester }) => {
      const session = await sights.session(requester, params.id, query.visibility);
      return statusOf(session, supervisor, records);
    },

    sessionHistory: async ({ params, query: { visibility, ...wanted } }, { requester }) => {
      const session = await sights.session(requester, params.id, visibility);
      return historyOf(session, supervisor, records, wanted);
    },

    sendMessage: async ({ params, body: { text, visibility, deliver } }, { requester }) => {
      const { id } = await sights.session(requester, params.id, visibility);
      const from = requester.kind === "session" ? { fromSessionId: requester.session.id } : {};
      const saying = { text, actor: requester.actor, deliver, ...from };
      return { message: await history.send(id, "user", saying) };
    },

    closeSession: async ({ params }, { requester }) => {
      // Its agent must not go on without it.
      const agents = await closeAgent(params.id, requester.actor);
      return { closed: (await sessions.close(params.id, requester.actor)) || agents };
    },
  };
}
