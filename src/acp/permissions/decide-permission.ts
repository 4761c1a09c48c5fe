import type { RequestPermissionOutcome } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type {
  AcpPermissionRequest,
  PermissionDecision,
  PermissionOption,
  PermissionVerdict,
} from "../../model/acp/permission-request.js";
import { newPermissionId } from "../../model/ids.js";
import { matchesGlob } from "../../text/glob.js";
import { truncate } from "../../text/truncate.js";
import type { KnownToolCall } from "../turn/turn-summary.js";
import type { RpcId } from "../wire/message.js";
import type { MatchedRule } from "./remembered-rules.js";
import { type NamedRule, orderRules, type RuleLayers } from "./rule-layers.js";
import type { ToolCallInfo, ParsedPermissionRequest } from "./parse-permission-request.js";

type PolicyDecision =
  | { readonly type: "ask"; readonly rule: number }
  | { readonly type: "answer"; readonly outcome: RequestPermissionOutcome; readonly rule: number | null };

/**
 * The first matching rule decides. The answer is no if no rule matches.
 * Only `allow_once` and `reject_once` are chosen: `allow_always` and `reject_always` would leave the next decision to
 * the agent. An agent that offers no option of the decided kind gets the answer `cancelled`.
 */
export function decidePermission(
  rules: readonly MatchedRule[],
  tool: ToolCallInfo,
  options: readonly PermissionOption[],
): PolicyDecision {
  const at = rules.findIndex((rule) => ruleMatches(rule, tool));
  const effect = rules[at]?.effect ?? "reject";
  if (effect === "ask") return { type: "ask", rule: at };
  return { type: "answer", outcome: selectOption(options, effect === "allow"), rule: at < 0 ? null : at };
}

export function selectOption(options: readonly PermissionOption[], allow: boolean): RequestPermissionOutcome {
  const optionId = optionForVerdict(allow ? "allow" : "deny", options);
  return optionId === null ? { outcome: "cancelled" } : { outcome: "selected", optionId };
}

/**
 * Selects by kind, because the agent chooses names and order; the first option of a kind is taken. An operator cannot
 * revoke what an agent remembers, so an option that the agent remembers is taken only if the answer is to be remembered
 * and the agent offers no other.
 */
export function optionForVerdict(
  verdict: PermissionVerdict,
  options: readonly PermissionOption[],
  remembered = false,
): string | null {
  if (verdict === "cancelled") return null;
  const [once, always] = KINDS_OF_VERDICT[verdict === "allow" ? "allow" : "deny"];
  const found =
    options.find((each) => each.kind === once) ??
    (remembered ? options.find((each) => each.kind === always) : undefined);
  return found?.optionId ?? null;
}

/** Throws if the request does not offer the option, or if the option means another verdict. */
export function assertOffersOption(
  { id, options }: Pick<AcpPermissionRequest, "id" | "options">,
  verdict: "allow" | "deny",
  optionId: string,
): void {
  const fits = options.filter(({ kind }) => KINDS_OF_VERDICT[verdict].includes(kind));
  if (fits.some((option) => option.optionId === optionId)) return;
  const offered = fits.map((option) => `${option.optionId} (${option.name})`).join(", ");
  throw new BadInput(
    "optionId",
    `${id} has no option ${JSON.stringify(optionId)} to ${verdict} it; its options to ${verdict} it are: ${offered || "none"}. The request is not answered`,
  );
}

const KINDS_OF_VERDICT: Readonly<Record<"allow" | "deny", readonly [once: string, always: string]>> = {
  allow: ["allow_once", "allow_always"],
  deny: ["reject_once", "reject_always"],
};

function ruleMatches({ effect, ...rule }: MatchedRule, { kind, title, inputDigest }: ToolCallInfo): boolean {
  if (rule.kind !== undefined && rule.kind !== kind) return false;
  // An answer to a request that did not name what it executes denies, but does not allow, a request that does.
  const deniesAny = effect === "reject" && rule.inputDigest === null;
  if (rule.inputDigest !== undefined && rule.inputDigest !== inputDigest && !deniesAny) return false;
  if (rule.title === undefined || title === null) return rule.title === undefined;
  if (rule.exact === true) return rule.title === title;
  const matches = title.length > defaults.acpAskedChars ? null : matchesGlob(rule.title, title);
  // A title that is too long to be matched is never allowed by a rule on titles; other effects apply to it.
  return matches ?? effect !== "allow";
}

export interface JudgedTurn {
  readonly turnId: string;
  readonly cancelled: boolean;
  /** The tool call in earlier updates; null: unknown. */
  tool(id: string): KnownToolCall | null;
}

interface JudgeOptions {
  readonly at: number;
  readonly waitMs: number;
  readonly layers: RuleLayers;
}

/** The record of a permission request, decided by the session's rules. Without a decision an operator is asked. */
export function judgePermission(
  rpcId: RpcId,
  asked: ParsedPermissionRequest,
  { sessionId, rules }: Pick<AcpSession, "sessionId" | "rules">,
  turn: JudgedTurn | null,
  { at, waitMs, layers }: JudgeOptions,
): AcpPermissionRequest {
  const known = turn?.tool(asked.toolCallId) ?? null;
  const tool = {
    kind: asked.kind ?? known?.kind ?? null,
    title: asked.title ?? known?.title ?? null,
    inputDigest: asked.inputDigest ?? known?.inputDigest ?? null,
  };
  const { options } = asked;
  const ordered = orderRules(rules, layers);
  const judged = decidePermission(
    ordered.map(({ rule }) => rule),
    tool,
    options,
  );
  const rule = judged.rule === null ? undefined : ordered[judged.rule];
  const byRule = judged.type === "ask" ? null : decisionByRule(judged.outcome, rule, options, at);
  const noTurn = turn === null || turn.cancelled;
  return {
    id: newPermissionId(),
    sessionId,
    turnId: turn?.turnId ?? null,
    rpcId,
    toolCallId: asked.toolCallId,
    kind: tool.kind,
    title: tool.title === null ? null : truncate(tool.title, defaults.acpAskedChars),
    inputDigest: tool.inputDigest,
    options,
    rule: rule?.index ?? null,
    askedAt: at,
    expiresAt: at + waitMs,
    decision: noTurn ? { verdict: "cancelled", optionId: null, actor: "no turn is under way", at } : byRule,
    answered: false,
  };
}

function decisionByRule(
  outcome: RequestPermissionOutcome,
  rule: NamedRule | undefined,
  options: readonly PermissionOption[],
  at: number,
): PermissionDecision {
  const actor = rule?.name ?? "no rule allows it";
  if (outcome.outcome === "cancelled") return { verdict: "cancelled", optionId: null, actor, at };
  const { optionId } = outcome;
  const kind = options.find((each) => each.optionId === optionId)?.kind;
  return { verdict: kind === "allow_once" ? "allow" : "deny", optionId, actor, at };
}
