import type { Insertable, Selectable } from "kysely";
import type {
  AcpPermissionRequest,
  AcpSession,
  AcpTurn,
  AcpUpdate,
  PermissionDecision,
} from "../../model/acp.js";
import { toColumns, toFields, type Columns } from "../columns.js";
import type { AcpPermissionTable, AcpSessionTable, AcpTurnTable, AcpUpdateTable } from "../schema.js";

const sessionColumns: Columns<AcpSession, AcpSessionTable> = {
  sessionId: ["session_id", "plain"],
  gatewayInstanceId: ["gateway_instance_id", "plain"],
  agent: ["agent", "plain"],
  argv: ["argv", "json?"],
  command: ["command", "plain"],
  cwd: ["cwd", "plain"],
  mode: ["mode", "plain"],
  rules: ["rules", "json"],
  reap: ["reap", "plain"],
  state: ["state", "plain"],
  runId: ["run_id", "plain"],
  tmpdir: ["tmpdir", "plain"],
  agentSessionId: ["agent_session_id", "plain"],
  capabilities: ["capabilities", "json?"],
  end: ["kept_end", "plain"],
  sending: ["sending", "json?"],
  pending: ["pending", "json"],
  seq: ["last_seq", "plain"],
  version: ["version", "plain"],
  problem: ["problem", "json?"],
  createdAt: ["created_at", "plain"],
  updatedAt: ["updated_at", "plain"],
  closedAt: ["closed_at", "plain"],
};

const turnColumns: Columns<AcpTurn, AcpTurnTable> = {
  turnId: ["turn_id", "plain"],
  sessionId: ["session_id", "plain"],
  ordinal: ["ordinal", "plain"],
  place: ["place", "plain"],
  state: ["state", "plain"],
  prompt: ["prompt", "plain"],
  askedBy: ["asked_by", "plain"],
  timeoutMs: ["timeout_ms", "plain"],
  createdAt: ["created_at", "plain"],
  startedAt: ["started_at", "plain"],
  endedAt: ["ended_at", "plain"],
  requestId: ["request_id", "plain"],
  before: ["before", "json?"],
  cancel: ["cancel", "json?"],
  outcome: ["outcome", "plain"],
  stopReason: ["stop_reason", "plain"],
  problem: ["problem", "json?"],
  text: ["result", "plain"],
  toolCalls: ["tool_calls", "json"],
  audit: ["audit", "json?"],
  contextLost: ["context_lost", "flag"],
  keptBytes: ["kept_bytes", "plain"],
  droppedUpdates: ["dropped_updates", "plain"],
};

export function toAcpSessionColumns(part: Partial<AcpSession>): Insertable<AcpSessionTable> {
  return toColumns(sessionColumns, part) as unknown as Insertable<AcpSessionTable>;
}

export function toAcpSession(row: Selectable<AcpSessionTable>): AcpSession {
  return toFields<AcpSession, AcpSessionTable>(sessionColumns, row);
}

export function toAcpTurnColumns(part: Partial<AcpTurn>): Insertable<AcpTurnTable> {
  return toColumns(turnColumns, part) as unknown as Insertable<AcpTurnTable>;
}

export function toAcpTurn(row: Selectable<AcpTurnTable>): AcpTurn {
  return toFields<AcpTurn, AcpTurnTable>(turnColumns, row);
}

export function toAcpUpdate(row: Selectable<AcpUpdateTable>): AcpUpdate {
  const { session_id, seq, turn_id, at, type, data } = row;
  return { sessionId: session_id, seq, turnId: turn_id, at, type, data: JSON.parse(data) as unknown };
}

export function toAcpPermissionRequestColumns(
  permission: AcpPermissionRequest,
): Insertable<AcpPermissionTable> {
  const { decision } = permission;
  return {
    id: permission.id,
    session_id: permission.sessionId,
    turn_id: permission.turnId,
    rpc_id: JSON.stringify(permission.rpcId),
    tool_call_id: permission.toolCallId,
    kind: permission.kind,
    title: permission.title,
    options: JSON.stringify(permission.options),
    rule: permission.rule,
    asked_at: permission.askedAt,
    expires_at: permission.expiresAt,
    answered: permission.answered ? 1 : 0,
    ...(decision === null ? {} : toDecisionColumns(decision)),
  };
}

export function toDecisionColumns({ verdict, optionId, actor, at }: PermissionDecision) {
  return { verdict, option_id: optionId, actor, decided_at: at };
}

export function toAcpPermissionRequest(row: Selectable<AcpPermissionTable>): AcpPermissionRequest {
  const { verdict, option_id, actor, decided_at } = row;
  return {
    id: row.id,
    sessionId: row.session_id,
    turnId: row.turn_id,
    rpcId: JSON.parse(row.rpc_id) as AcpPermissionRequest["rpcId"],
    toolCallId: row.tool_call_id,
    kind: row.kind,
    title: row.title,
    options: JSON.parse(row.options) as AcpPermissionRequest["options"],
    rule: row.rule,
    askedAt: row.asked_at,
    expiresAt: row.expires_at,
    decision:
      verdict === null || actor === null || decided_at === null
        ? null
        : { verdict, optionId: option_id, actor, at: decided_at },
    answered: row.answered === 1,
  };
}
