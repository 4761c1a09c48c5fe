import type { Insertable, Selectable } from "kysely";
import type { Approval, ApprovalDecision, NewApproval } from "../model/approval.js";
import type { ApprovalTable } from "./schema.js";

export function toApprovalColumns(approval: NewApproval): Insertable<ApprovalTable> {
  return {
    id: approval.id,
    session_id: approval.sessionId,
    gateway_instance_id: approval.gatewayInstanceId,
    executable: approval.executable,
    command: approval.command,
    cwd: approval.cwd,
    rule: approval.rule,
    asked_at: approval.askedAt,
    expires_at: approval.expiresAt,
  };
}

export function toApproval(row: Selectable<ApprovalTable>): Approval {
  return {
    id: row.id,
    sessionId: row.session_id,
    gatewayInstanceId: row.gateway_instance_id,
    executable: row.executable,
    command: row.command,
    cwd: row.cwd,
    rule: row.rule,
    askedAt: row.asked_at,
    expiresAt: row.expires_at,
    decision: decisionOf(row),
  };
}

function decisionOf({ verdict, actor, decided_at }: Selectable<ApprovalTable>): ApprovalDecision | null {
  if (verdict === null || actor === null || decided_at === null) return null;
  return { verdict, actor, at: decided_at };
}
