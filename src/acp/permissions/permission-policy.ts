import type { RequestPermissionOutcome } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type {
  AcpPermissionRequest,
  AcpSession,
  NewAcpUpdate,
  PermissionDecision,
  PermissionOption,
  PermissionVerdict,
} from "../../model/acp/session-and-turn.js";
import { newPermissionId } from "../../model/ids.js";
import type { NewRunEvent } from "../../model/run-event.js";
import { type LabelledText, labelTexts } from "../../sessions/approval-question.js";
import type { AcpChange } from "../../store/acp/contract.js";
import { matchesGlob } from "../../text/match.js";
import { redactedExcerpt } from "../../text/redact.js";
import { firstChars, truncate } from "../../text/truncate.js";
import { digestInput } from "../turn/input-digest.js";
import { boundedString, type KnownToolCall } from "../turn/turn-summary.js";
import { isObject, type RpcId } from "../wire/message.js";
import type { MatchedRule } from "./remembered-rules.js";
import { type NamedRule, orderRules, type RuleLayers } from "./rule-layers.js";

/** A tool call as far as it is known: from the permission request, and from the updates before it. */
export interface ToolCallInfo {
  readonly kind: string | null;
  readonly title: string | null;
  /** The digest of what it executes; null: its input does not name it. */
  readonly inputDigest: string | null;
}

/** A permission request of an agent. The title is not shortened, because rules match on it. */
export interface ParsedPermissionRequest extends ToolCallInfo {
  readonly toolCallId: string;
  readonly options: readonly PermissionOption[];
  /** Details of the tool call besides its title, as given by the agent: input, content and locations. */
  readonly details: readonly LabelledText[];
}

/** Null: not a permission request. Title, kind and input may be missing: an earlier update may have them. */
export function parsePermissionRequest(params: unknown): ParsedPermissionRequest | null {
  if (!isObject(params)) return null;
  const { sessionId, toolCall, options } = params;
  if (typeof sessionId !== "string" || !isObject(toolCall) || !Array.isArray(options)) return null;
  const { toolCallId, title, kind, rawInput, content, locations } = toolCall;
  if (typeof toolCallId !== "string") return null;
  return {
    toolCallId: firstChars(toolCallId, defaults.titleChars),
    title: typeof title === "string" ? title : null,
    kind: boundedString(kind),
    inputDigest: digestInput(rawInput),
    details: [
      ...(isEmpty(rawInput) ? [] : labelTexts("input", rawInput)),
      ...(isEmpty(content) ? [] : labelTexts("content", content)),
      ...(isEmpty(locations) ? [] : labelTexts("locations", locations)),
    ],
    options: options.slice(0, defaults.acpAskedOptions).flatMap(parseOption),
  };
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)
  );
}

/** The details of a question, or a note if with those in memory (`held`) they would take too much of it. */
export function boundDetails(details: readonly LabelledText[], held: number): readonly LabelledText[] {
  const chars = details.reduce((sum, [label, text]) => sum + label.length + text.length, 0);
  if (held + chars <= defaults.acpDetailChars) return details;
  return [
    [
      "note",
      `${chars} characters of details were dropped, because too many details are waiting in memory. Deny this question, or answer others first`,
    ],
  ];
}

/** An option without a storable id cannot be chosen, so it is dropped. An unknown kind is kept to be shown; it is never chosen. */
function parseOption(option: unknown): PermissionOption[] {
  if (!isObject(option) || typeof option["optionId"] !== "string") return [];
  const { optionId, name, kind } = option;
  if (optionId.length > defaults.titleChars) return [];
  return [{ optionId, name: boundedString(name) ?? "", kind: boundedString(kind) ?? "" }];
}

export type PolicyDecision =
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

export interface PermissionUpdates {
  readonly updates: readonly NewAcpUpdate[];
  readonly events: readonly NewRunEvent[];
}

/** The updates and events of a request, with its decision if there is one. */
export function permissionUpdates(
  permission: AcpPermissionRequest,
  decision: PermissionDecision | null,
  runId: string | null,
  at: number,
): PermissionUpdates {
  const { inputDigest: _digest, ...shown } = permission;
  const data = { ...shown, decision };
  const updates = [{ turnId: permission.turnId, at, type: "permission", data }] as const;
  if (decision === null || runId === null) return { updates, events: [] };
  const event: NewRunEvent = {
    runId,
    at,
    rootPid: null,
    descendants: 0,
    type: "permission",
    data: {
      permissionId: permission.id,
      title: redactedExcerpt(permission.title ?? ""),
      kind: redactedExcerpt(permission.kind ?? "other"),
      verdict: decision.verdict,
      actor: decision.actor,
    },
  };
  return { updates, events: [event] };
}

/** The change that ends requests without an answer, because the agent has ended. */
export function expireAllChange(
  unanswered: readonly AcpPermissionRequest[],
  actor: string,
  runId: string | null,
  at: number,
): Pick<AcpChange, "decide" | "answered" | "updates" | "events"> {
  const pending = unanswered.filter(({ decision }) => decision === null);
  const decision = { verdict: "expired", optionId: null, actor, at } as const;
  const told = pending.map((permission) => permissionUpdates(permission, decision, runId, at));
  return {
    decide: pending.map(({ id }) => ({ id, decision })),
    answered: unanswered.map(({ id }) => id),
    updates: told.flatMap(({ updates }) => updates),
    events: told.flatMap(({ events }) => events),
  };
}
