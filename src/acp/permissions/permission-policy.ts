import type { PermissionOption, RequestPermissionOutcome } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import type { PermissionRule } from "../../model/acp.js";
import { matchesGlob } from "../../text/glob.js";

/** What is known of the tool call: from the question and from the updates before it. */
export interface ToolCallInfo {
  readonly kind: string | null;
  readonly title: string | null;
}

export type PolicyDecision =
  | { readonly type: "ask"; readonly rule: number }
  | { readonly type: "answer"; readonly outcome: RequestPermissionOutcome; readonly rule: number | null };

/**
 * The first rule that matches decides; when none does, or somebody should be asked and nobody can be, the answer is no.
 * Never more than once: `allow_always` and `reject_always` would leave the next decision to the agent. An agent that
 * offers nothing of the kind that was decided is answered that the question was cancelled.
 */
export function decidePermission(
  rules: readonly PermissionRule[],
  tool: ToolCallInfo,
  options: readonly PermissionOption[],
  { canAsk }: { readonly canAsk: boolean },
): PolicyDecision {
  const at = rules.findIndex((rule) => ruleMatches(rule, tool));
  const effect = rules[at]?.effect ?? "reject";
  if (effect === "ask" && canAsk) return { type: "ask", rule: at };
  return { type: "answer", outcome: selectOption(options, effect === "allow"), rule: at < 0 ? null : at };
}

/** By option id: names and order are the agent's, and two options may be of one kind. */
export function selectOption(options: readonly PermissionOption[], allow: boolean): RequestPermissionOutcome {
  const kind = allow ? "allow_once" : "reject_once";
  const option = options.find((each) => each.kind === kind);
  return option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option.optionId };
}

function ruleMatches({ effect, ...rule }: PermissionRule, { kind, title }: ToolCallInfo): boolean {
  if (rule.kind !== undefined && rule.kind !== kind) return false;
  if (rule.title === undefined || title === null) return rule.title === undefined;
  // Too long to be looked through: no rule on titles allows it, and the first that could say something else does.
  return title.length > defaults.acpAskedChars ? effect !== "allow" : matchesGlob(rule.title, title);
}
