import type { Insertable, Selectable } from "kysely";
import type { SessionTable } from "../schema.js";
import type { NewSession, SessionRecord } from "../../model/session.js";

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
