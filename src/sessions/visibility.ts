import type { SessionRecord, Visibility, SessionScope } from "../model/session.js";
import { VISIBILITIES } from "../model/enums.js";

/** Which agents' sessions may see which other agents'. An agent id, or `*` for any session. */
export interface A2aPolicy {
  readonly enabled: boolean;
  readonly allow: readonly { readonly from: string; readonly to: string }[];
}

export interface VisibilityRequest {
  readonly row: Pick<SessionRecord, "id" | "agentId" | "lineage">;
  readonly requester: Pick<SessionRecord, "id" | "agentId">;
  readonly visibility: Visibility;
  readonly a2aPolicy: A2aPolicy;
  readonly sandboxed: boolean;
}

/** The rule is for the operator's log; the requester cannot distinguish forbidden from missing. */
export type VisibilityDecision =
  | { readonly visible: true; readonly rule: "self" | "lineage" | "same-agent" | "a2a" }
  | {
      readonly visible: false;
      readonly rule:
        | "visibility-self"
        | "visibility-tree"
        | "visibility-agent"
        | "sandboxed"
        | "a2a-disabled"
        | "a2a-no-rule";
    };

/**
 * Decides whether a session sees another. Each level includes the previous one.
 *
 *     self ──▶ tree (its descendants) ──▶ agent (the same agent's) ──▶ all (what the a2a policy allows)
 *
 * Descendants are identified by id: a reused key inherits nothing.
 */
export function canSeeSessionRow({
  row,
  requester,
  visibility,
  a2aPolicy,
  sandboxed,
}: VisibilityRequest): VisibilityDecision {
  if (row.id === requester.id) return { visible: true, rule: "self" };
  if (visibility === "self") return { visible: false, rule: "visibility-self" };
  if (row.lineage.includes(requester.id)) return { visible: true, rule: "lineage" };
  if (visibility === "tree") return { visible: false, rule: "visibility-tree" };
  // A sandbox limits the visibility to `tree`.
  if (sandboxed) return { visible: false, rule: "sandboxed" };
  // Two sessions without an agent do not have the same agent.
  if (row.agentId !== null && row.agentId === requester.agentId) return { visible: true, rule: "same-agent" };
  if (visibility === "agent") return { visible: false, rule: "visibility-agent" };
  if (!a2aPolicy.enabled) return { visible: false, rule: "a2a-disabled" };
  return a2aPolicy.allow.some(
    ({ from, to }) => matchesAgent(from, requester.agentId) && matchesAgent(to, row.agentId),
  )
    ? { visible: true, rule: "a2a" }
    : { visible: false, rule: "a2a-no-rule" };
}

/** Every session that canSeeSessionRow shows to this requester, as a filter for the store. */
export function visibleSessions({
  requester: { id, agentId },
  visibility,
  a2aPolicy,
  sandboxed,
}: Omit<VisibilityRequest, "row">): SessionScope {
  const descendants = visibility !== "self";
  if (!descendants || visibility === "tree" || sandboxed) return { sessionId: id, descendants, agentIds: [] };
  const own = agentId === null ? [] : [agentId];
  if (visibility === "agent" || !a2aPolicy.enabled) return { sessionId: id, descendants, agentIds: own };
  const others = a2aPolicy.allow.filter(({ from }) => matchesAgent(from, agentId)).map(({ to }) => to);
  return { sessionId: id, descendants, agentIds: others.includes("*") ? "any" : [...own, ...others] };
}

export function narrower(one: Visibility, other: Visibility): Visibility {
  return VISIBILITIES.indexOf(one) < VISIBILITIES.indexOf(other) ? one : other;
}

function matchesAgent(pattern: string, agentId: string | null): boolean {
  return pattern === "*" || pattern === agentId;
}

/** Ids of all ancestors of a session, from its nearest ones, without duplicates. */
export function ancestorIds(nearest: readonly Pick<SessionRecord, "id" | "lineage">[]): readonly string[] {
  return [...new Set(nearest.flatMap(({ id, lineage }) => [id, ...lineage]))];
}
