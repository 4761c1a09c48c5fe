import { expect, test } from "vitest";
import {
  configuredRules,
  DEFAULT_PERMISSION_RULES,
  type NamedRule,
  orderRules,
  ruleLayers,
} from "../../../src/acp/permissions/rule-layers.js";
import type { PermissionRule } from "../../../src/model/acp/permission-rule.js";

const names = (
  own: readonly PermissionRule[],
  general: readonly NamedRule[],
  session: readonly NamedRule[] = [],
) => orderRules(own, { session, general }).map(({ name }) => name);
const configured = configuredRules(
  [
    { effect: "allow", title: "git status" },
    { effect: "deny", agent: "codex", kind: "execute", title: "git push*" },
    { effect: "ask", agent: "claude" },
  ],
  "codex",
);

test("rules of the config apply to their agent, or to every agent, and deny is stored as reject", () => {
  expect(configured).toEqual([
    { rule: { effect: "allow", title: "git status" }, name: "rule 1 of the config", index: null },
    {
      rule: { effect: "reject", kind: "execute", title: "git push*" },
      name: "rule 2 of the config",
      index: null,
    },
  ]);
  expect(configuredRules([{ effect: "ask", agent: "claude" }], null)).toEqual([]);
});

test("denials come first, and what is allowed everywhere comes between the session's rules and the default rules", () => {
  const own = [{ effect: "ask", kind: "edit" } as const, ...DEFAULT_PERMISSION_RULES];
  expect(names(own, configured)).toEqual([
    ...["rule 2 of the config", "rule 1", "rule 1 of the config"],
    ...["rule 2", "rule 3", "rule 4"],
  ]);
  expect(names(DEFAULT_PERMISSION_RULES, [])).toEqual(["rule 1", "rule 2", "rule 3"]);
});

test("a complete list of a session gets no rule that allows more", () => {
  for (const own of [[], [{ effect: "reject" }], [{ effect: "allow", kind: "read" }]] as PermissionRule[][])
    expect(names(own, configured)).toEqual(["rule 2 of the config", ...own.map((_, at) => `rule ${at + 1}`)]);
});

test("remembered rules of the session are tried before its own, and those of the agent like those of the config", () => {
  const rule = {
    ...{ kind: "execute", title: "a *", exact: true, inputDigest: null, permissionId: null },
    ...{ actor: "ada", createdAt: 1 },
  };
  const alive = { revokedAt: null, revokedBy: null };
  const ofSession = { scope: "session", sessionId: "ses_1", agent: null } as const;
  const ofAgent = { scope: "agent", sessionId: null, agent: "codex" } as const;
  const { session, general } = ruleLayers(
    [
      { id: "prl_1", effect: "allow", ...ofSession, ...rule, ...alive },
      { id: "prl_2", effect: "allow", ...ofAgent, ...rule, ...alive },
      { id: "prl_3", effect: "reject", ...ofAgent, ...rule, ...alive },
    ],
    configured,
  );
  expect(session[0]?.rule).toEqual({ effect: "allow", kind: "execute", title: "a *", exact: true });
  expect(names(DEFAULT_PERMISSION_RULES, general, session)).toEqual([
    ...["rule prl_3", "rule 2 of the config", "rule prl_1", "rule prl_2", "rule 1 of the config"],
    ...["rule 1", "rule 2", "rule 3"],
  ]);
  expect(names([{ effect: "allow" }], general, session)).toEqual([
    ...["rule prl_3", "rule 2 of the config", "rule prl_1", "rule 1"],
  ]);
});
