import type { NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest, PermissionDecision } from "../../model/acp/permission-request.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { AcpChange } from "../../store/acp/contract.js";
import { redactedExcerpt } from "../../text/redact.js";

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
