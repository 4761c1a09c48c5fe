import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import { newPermissionRuleId } from "../../model/ids.js";
import type { PermissionRule, RememberedRule } from "../../model/acp/permission-rule.js";

/**
 * How an answer is to be remembered. Without a kind and a title: for requests of the same kind with the same title that
 * execute the same.
 */
export interface RememberRequest {
  readonly scope: RememberedRule["scope"];
  readonly kind?: string | undefined;
  readonly title?: string | undefined;
}

/** The rule that answers later requests as this one is answered. Throws if the request does not identify them. */
export function ruleFromAnswer(
  { id, kind, title, inputDigest }: Pick<AcpPermissionRequest, "id" | "kind" | "title" | "inputDigest">,
  verdict: "allow" | "deny",
  remember: RememberRequest,
  session: Pick<AcpSession, "sessionId" | "agent">,
  { actor, at }: { readonly actor: string; readonly at: number },
): RememberedRule {
  const given = remember.kind !== undefined || remember.title !== undefined;
  // A stored title of the largest length may be cut, so it does not identify the request.
  if (!given && (title === null || title === "" || title.length >= defaults.acpAskedChars))
    throw new BadInput(
      "remember",
      `${id} has ${title === null || title === "" ? "no title" : "too long a title"} to be recognized again; give the rule as a pattern. The request is not answered`,
    );
  return {
    ...scopeOf(remember.scope, session),
    id: newPermissionRuleId(),
    effect: verdict === "allow" ? "allow" : "reject",
    kind: given ? (remember.kind ?? null) : kind,
    title: given ? (remember.title ?? null) : title,
    exact: !given,
    inputDigest: given ? null : inputDigest,
    permissionId: id,
    ...{ actor, createdAt: at, revokedAt: null, revokedBy: null },
  };
}

function scopeOf(
  scope: RememberedRule["scope"],
  { sessionId, agent }: Pick<AcpSession, "sessionId" | "agent">,
): Pick<RememberedRule, "scope" | "sessionId" | "agent"> {
  if (scope === "session") return { scope, sessionId, agent: null };
  if (agent === null)
    throw new BadInput(
      "scope",
      "the session's agent is not in the catalogue: the answer can be remembered for the session only. The request is not answered",
    );
  return { scope, sessionId: null, agent };
}

/** A rule that an operator adds. `target`: the id of a session, or an agent of the catalogue. */
export function newRememberedRule(
  rule: PermissionRule,
  target: Pick<RememberedRule, "scope" | "sessionId" | "agent">,
  { actor, at }: { readonly actor: string; readonly at: number },
): RememberedRule {
  const { effect, kind = null, title = null, exact = false } = rule;
  return {
    ...target,
    id: newPermissionRuleId(),
    ...{ effect, kind, title, exact, inputDigest: null, permissionId: null },
    ...{ actor, createdAt: at, revokedAt: null, revokedBy: null },
  };
}

/** A permission rule as it is matched. */
export interface MatchedRule extends PermissionRule {
  /** The digest of the answered request, which may have had none. Absent: digests are not compared. */
  readonly inputDigest?: string | null;
}

export function toPermissionRule(rule: RememberedRule): MatchedRule {
  const { effect, kind, title, exact, inputDigest, permissionId } = rule;
  return {
    effect,
    ...(kind === null ? {} : { kind }),
    ...(title === null ? {} : { title }),
    ...(exact ? { exact } : {}),
    // An operator who writes a rule gives only a title.
    ...(exact && permissionId !== null ? { inputDigest } : {}),
  };
}
