import type { ConfiguredPermissionRule } from "../../config/permissions.js";
import type { PermissionRule, RememberedRule } from "../../model/acp/permission-rule.js";
import { type MatchedRule, toPermissionRule } from "./remembered-rules.js";

/** Allows reads and searches, and asks about everything else. */
export const DEFAULT_PERMISSION_RULES: readonly PermissionRule[] = [
  { effect: "allow", kind: "read" },
  { effect: "allow", kind: "search" },
  { effect: "ask" },
];

/** A rule with the words that name it in a decision. */
export interface NamedRule {
  readonly rule: MatchedRule;
  readonly name: string;
  /** Its index in the session's own rules; null: it is not one of them. */
  readonly index: number | null;
}

/** The rules of the config that apply to an agent; `agent` null: a command that is not in the catalogue. */
export function configuredRules(
  configured: readonly ConfiguredPermissionRule[],
  agent: string | null,
): readonly NamedRule[] {
  return configured.flatMap(({ effect, agent: of, kind, title }, at) =>
    of !== undefined && of !== agent
      ? []
      : [
          {
            rule: {
              effect: effect === "deny" ? ("reject" as const) : effect,
              ...(kind === undefined ? {} : { kind }),
              ...(title === undefined ? {} : { title }),
            },
            name: `rule ${at + 1} of the config`,
            index: null,
          },
        ],
  );
}

/** Rules beside those of the session. */
export interface RuleLayers {
  /** Remembered for the session, the newest first. */
  readonly session: readonly NamedRule[];
  /** Remembered for the agent, the newest first, then those of the config. */
  readonly general: readonly NamedRule[];
}

export function ruleLayers(
  remembered: readonly RememberedRule[],
  configured: readonly NamedRule[],
): RuleLayers {
  const named = (scope: RememberedRule["scope"]): NamedRule[] =>
    remembered
      .filter((each) => each.scope === scope)
      .map((each) => ({ rule: toPermissionRule(each), name: `rule ${each.id}`, index: null }));
  return { session: named("session"), general: [...named("agent"), ...configured] };
}

/**
 * The rules of a session in the order in which they are tried: what is denied for the agent or everywhere; what was
 * remembered for the session; the session's own rules; what is allowed for the agent or everywhere; the default rules.
 * A session whose rules do not end with the default rules has a complete list of its own: rules for the agent or for
 * all sessions allow it nothing more.
 */
export function orderRules(
  own: readonly PermissionRule[],
  { session, general }: RuleLayers,
): readonly NamedRule[] {
  const named = own.map((rule, index): NamedRule => ({ rule, name: `rule ${index + 1}`, index }));
  const denials = general.filter(({ rule }) => rule.effect === "reject");
  const others = general.filter(({ rule }) => rule.effect !== "reject");
  const defaultsAt = own.length - DEFAULT_PERMISSION_RULES.length;
  const endsWithDefaults =
    JSON.stringify(own.slice(Math.max(0, defaultsAt))) === JSON.stringify(DEFAULT_PERMISSION_RULES);
  const head = [...denials, ...session];
  if (!endsWithDefaults) return [...head, ...named];
  return [...head, ...named.slice(0, defaultsAt), ...others, ...named.slice(defaultsAt)];
}
