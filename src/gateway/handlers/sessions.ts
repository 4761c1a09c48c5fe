import { NotFound } from "../../errors.js";
import { OPEN_STATES } from "../../store/run-record.js";
import type { SessionRow } from "../../store/session-record.js";
import type { Verb } from "../contract/contract.js";
import type { Handlers } from "../server/app.js";
import { defined } from "./defined.js";
import type { Desk } from "./handlers.js";

type SessionVerb = Extract<
  Verb,
  "openSession" | "listSessions" | "sessionStatus" | "sessionHistory" | "sendMessage" | "closeSession"
>;

export function sessionHandlers({
  supervisor,
  sights,
  history,
  closeAgent,
  gate: { sessions },
}: Pick<Desk, "supervisor" | "sights" | "history" | "closeAgent" | "gate">): Pick<Handlers, SessionVerb> {
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
      return statusOf(session, supervisor, history);
    },

    sessionHistory: async ({ params, query: { visibility, ...wanted } }, { requester }) => {
      const session = await sights.session(requester, params.id, visibility);
      return { session, messages: [...(await history.list(session.id, defined(wanted)))] };
    },

    sendMessage: async ({ params, body: { text, visibility } }, { requester }) => {
      const { id } = await sights.session(requester, params.id, visibility);
      const from = requester.kind === "session" ? { fromSessionId: requester.session.id } : {};
      return { message: await history.send(id, "user", { text, actor: requester.actor, ...from }) };
    },

    closeSession: async ({ params }, { requester }) => {
      // Its agent must not go on without it.
      const agents = await closeAgent(params.id, requester.actor);
      return { closed: (await sessions.close(params.id, requester.actor)) || agents };
    },
  };
}

/** How a session is: by what is recorded of it, whoever looks. */
export async function statusOf(
  session: SessionRow,
  runs: Pick<Desk["supervisor"], "listRuns">,
  history: Pick<Desk["history"], "count">,
) {
  const open = await runs.listRuns({ sessionId: session.id, states: OPEN_STATES });
  return {
    session,
    state: session.closedAt === null ? (open.length > 0 ? "working" : "idle") : "ended",
    runs: open.map(({ runId, state, command, createdAt }) => ({ runId, state, command, createdAt })),
    messages: await history.count(session.id),
  } as const;
}
