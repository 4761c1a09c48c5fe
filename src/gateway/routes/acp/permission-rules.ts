import { newRememberedRule } from "../../../acp/permissions/remembered-rules.js";
import type { RouteHandlers } from "../../../api/contract.js";
import { BadInput, NotFound } from "../../../errors.js";
import type { RememberedRule } from "../../../model/acp/permission-rule.js";
import { requireAcpSession } from "../../../queries/acp.js";
import {
  acpRuleResponse,
  type AcpRuleResponse,
  createAcpRuleQueries,
} from "../../../queries/permission-rules.js";
import type { HandlerDeps } from "../handler-deps.js";

/** Permission rules beside those that sessions were opened with. */
export function createAcpRuleHandlers(deps: HandlerDeps) {
  const { store } = deps;
  const shown = async (rule: RememberedRule): Promise<AcpRuleResponse> => {
    const row = rule.sessionId === null ? null : await deps.sessions.get(rule.sessionId);
    return acpRuleResponse(rule, row?.key ?? null);
  };
  return {
    ...createAcpRuleQueries({ ...deps, configuredRules: async () => deps.permissionRules }),

    acpAddRule: async ({ body: { rule, session, agent } }, { requester }) => {
      const made = { actor: requester.actor, at: Date.now() };
      const target = await ruleTarget(deps, session, agent, requester);
      const added = newRememberedRule(rule, target, made);
      await store.insertRememberedRule(added);
      return { rule: await shown(added) };
    },

    acpRevokeRule: async ({ params: { id } }, { requester }) => {
      if (/^config:\d+$/.test(id))
        throw new BadInput(
          "rule",
          `${id} is a rule of the config: remove it from the list [[permissions]] there, then run \`holdfast gateway restart\`. Nothing was changed`,
        );
      const revoked = await store.revokeRememberedRule(id, requester.actor, Date.now());
      const rule = await store.getRememberedRule(id);
      if (rule === null)
        throw new NotFound(`permission rule ${id}; \`holdfast acp permissions rules\` lists all`);
      return { rule: await shown(rule), revoked };
    },
  } satisfies Partial<RouteHandlers>;
}

async function ruleTarget(
  deps: HandlerDeps,
  session: string | undefined,
  agent: string | undefined,
  requester: Parameters<typeof requireAcpSession>[1],
): Promise<Pick<RememberedRule, "scope" | "sessionId" | "agent">> {
  if (session !== undefined) {
    const { sessionId, state } = await requireAcpSession(deps, requester, session);
    if (state === "closed") throw new BadInput("session", `session ${session} is closed; no rule was added`);
    return { scope: "session", sessionId, agent: null };
  }
  if (deps.agents.all.get(agent ?? "")?.acp === undefined)
    throw new BadInput(
      "agent",
      `there is no ACP agent ${JSON.stringify(agent)}; \`holdfast agents list\` shows the agents. No rule was added`,
    );
  return { scope: "agent", sessionId: null, agent: agent ?? null };
}
