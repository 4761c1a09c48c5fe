import type { ResponseOf, RouteHandlers } from "../api/contract.js";
import type { ConfiguredPermissionRule } from "../config/permissions.js";
import { omitUndefined } from "../model/record-type.js";
import type { RememberedRule } from "../model/acp/permission-rule.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Sessions } from "../sessions/sessions.js";
import type { AcpStore } from "../store/acp/contract.js";

export type AcpRuleResponse = ResponseOf<"acpRevokeRule">["rule"];

export function acpRuleResponse(
  { inputDigest: _digest, ...rule }: RememberedRule,
  sessionKey: string | null,
): AcpRuleResponse {
  return { ...rule, sessionKey };
}

interface AcpRuleQueryDeps {
  readonly store: Pick<AcpStore, "listRememberedRules">;
  readonly sessions: Pick<Sessions, "get">;
  readonly authorizer: Pick<Authorizer, "requireSession">;
  readonly configuredRules: () => Promise<readonly ConfiguredPermissionRule[]>;
}

/** Read-only handlers, used by the gateway and, without a gateway, on the store and the config. */
export function createAcpRuleQueries(deps: AcpRuleQueryDeps): Pick<RouteHandlers, "acpRules"> {
  return {
    acpRules: async ({ query: { session, agent, all, limit } }, { requester }) => {
      const sessionId =
        session === undefined ? undefined : (await deps.authorizer.requireSession(requester, session)).id;
      const filter = { ...omitUndefined({ sessionId, agent }), revoked: all === true, limit };
      const rules: AcpRuleResponse[] = [];
      for (const rule of await deps.store.listRememberedRules(filter)) {
        const row = rule.sessionId === null ? null : await deps.sessions.get(rule.sessionId);
        rules.push(acpRuleResponse(rule, row?.key ?? null));
      }
      const configured = session === undefined ? await deps.configuredRules() : [];
      return { rules: [...rules, ...configured.flatMap((rule, at) => configuredRule(rule, at, agent))] };
    },
  };
}

/** Empty: the rule is of another agent. */
function configuredRule(
  { effect, agent, kind, title }: ConfiguredPermissionRule,
  at: number,
  wanted: string | undefined,
): AcpRuleResponse[] {
  if (wanted !== undefined && agent !== undefined && agent !== wanted) return [];
  return [
    {
      id: `config:${at + 1}`,
      scope: "config",
      effect: effect === "deny" ? "reject" : effect,
      ...{ agent: agent ?? null, kind: kind ?? null, title: title ?? null },
      ...{ exact: false, actor: "config" },
      ...{ sessionId: null, sessionKey: null, permissionId: null },
      ...{ createdAt: null, revokedAt: null, revokedBy: null },
    },
  ];
}
