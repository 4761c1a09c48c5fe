import type { Insertable, Selectable } from "kysely";
import type {
  Approval,
  ApprovalDecision,
  NewApproval,
  NewSession,
  SessionRecord,
} from "../../model/session.js";
import type { ApprovalTable, SessionTable } from "../schema.js";

export function toSessionColumns(session: NewSession): Insertable<SessionTable> {
  return {
    id: session.id,
    key: session.key,
    agent_id: session.agentId,
    owner_session_key: session.ownerSessionKey,
    spawned_by: session.spawnedBy,
    parent_session_key: session.parentSessionKey,
    lineage: JSON.stringify(session.lineage),
    backend: session.backend,
    gateway_instance_id: session.gatewayInstanceId,
    interaction_mode: session.interactionMode,
    sandboxed: session.sandboxed ? 1 : 0,
    visibility: session.visibility,
    exec_rules: JSON.stringify(session.execRules),
    created_at: session.createdAt,
  };
}

export function toSessionRecord(row: Selectable<SessionTable>): SessionRecord {
  return {
    id: row.id,
    key: row.key,
    agentId: row.agent_id,
    ownerSessionKey: row.owner_session_key,
    spawnedBy: row.spawned_by,
    parentSessionKey: row.parent_session_key,
    lineage: JSON.parse(row.lineage) as SessionRecord["lineage"],
    backend: row.backend,
    gatewayInstanceId: row.gateway_instance_id,
    interactionMode: row.interaction_mode,
    sandboxed: row.sandboxed === 1,
    visibility: row.visibility,
    execRules: JSON.parse(row.exec_rules) as SessionRecord["execRules"],
    createdAt: row.created_at,
    closedAt: row.closed_at,
    agentSessionId: row.agent_session_id,
  };
}

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
