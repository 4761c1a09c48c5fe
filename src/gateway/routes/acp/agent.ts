import type { RequestContext, RouteHandlers } from "../../../api/contract.js";
import { OperatorOnly } from "../../../errors.js";
import type { AcpSession } from "../../../model/acp/session-and-turn.js";
import { omitUndefined } from "../../../model/record-type.js";
import { requireAcpSession } from "../../../queries/acp.js";
import { acpSessionResponse, agentStateResponse } from "../../../queries/acp-responses.js";
import { agentRun } from "../../../queries/agent-runs.js";
import { sanitizeText } from "../../../text/sanitize.js";
import type { HandlerDeps } from "../handler-deps.js";

/** Handlers of requests about the agent's own session. */
export function createAcpAgentHandlers(deps: HandlerDeps) {
  return {
    acpSet: async ({ params, body }, { requester }) => {
      deps.assertAcceptingRuns();
      const { sessionId } = await requireAcpSession(deps, requester, params.id);
      await assertMaySet(deps, sessionId, requester);
      const session: AcpSession = await deps.acp.setSettings(sessionId, omitUndefined(body), requester.actor);
      const run = await agentRun(deps.store, session);
      return {
        session: acpSessionResponse(session, await deps.sessions.get(sessionId), run),
        agentState: agentStateResponse(session.agentState),
      };
    },

    acpLogin: async ({ body }, { disconnected: signal }) => {
      deps.assertAcceptingRuns();
      const { cwd, method = null } = body;
      const login = await deps.acp.login({ command: deps.acp.commands.resolve(body), cwd, method, signal });
      const { id, name } = login.method;
      const { terminal } = login;
      return {
        method: { id: sanitizeText(id), name: sanitizeText(name) },
        terminal: terminal === null ? null : { argv: [...terminal.argv], env: { ...terminal.env } },
      };
    },

    acpAgentSessions: async ({ body }, { disconnected: signal }) => {
      deps.assertAcceptingRuns();
      const { agent, cwd, directory, limit } = body;
      const found = await deps.acp.listAgentSessions({
        ...{ agent: agent ?? null, command: deps.acp.commands.resolve(body), cwd, limit },
        ...{ directory: directory ?? null, signal },
      });
      return {
        sessions: found.map(({ sessionId, cwd: at, title, updatedAt }) => ({
          sessionId: sanitizeText(sessionId),
          cwd: sanitizeText(at),
          title: title === null ? null : sanitizeText(title),
          updatedAt: updatedAt === null ? null : sanitizeText(updatedAt),
        })),
      };
    },
  } satisfies Partial<RouteHandlers>;
}

/** A mode can make the agent stop asking for permission, so a session must not change its own. */
async function assertMaySet(
  { sessions }: HandlerDeps,
  sessionId: string,
  requester: RequestContext["requester"],
): Promise<void> {
  if (requester.kind === "operator") return;
  const row = await sessions.get(sessionId);
  if (row?.lineage.includes(requester.session.id) === true) return;
  throw new OperatorOnly("change the settings of a session that this session did not start");
}
