import type { Generated } from "kysely";
import type { AcpSession, AcpTurn, AcpUpdate } from "../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../model/acp/permission-request.js";
import type { GatewayRecord, HostRecord, RemoteStop } from "../model/gateway.js";
import type { OutboxEntry } from "../model/outbox.js";
import type { RememberedRule } from "../model/acp/permission-rule.js";
import type { RunRecord } from "../model/run.js";
import type { RunEventType } from "../model/run-event.js";
import type { Approval } from "../model/exec/approval.js";
import type { SessionRecord } from "../model/session.js";
import type { SessionMessage } from "../model/session-message.js";
import type { TaskEvent, TaskRecord } from "../model/task.js";
import { column, columns, type ColumnsOf, flag, json, mapTable, nullableJson } from "./sql/table-mapping.js";

// JSON is text in every database, so that one mapping serves all.

/** `policy`, `limits` and `usage` are JSON too; runs/queries.ts reads them, because old rows lack some of their fields. */
export const runTable = mapTable<RunRecord>("runs")({
  labels: json,
  anchor: columns({ pid: "anchor_pid", startTime: "anchor_start_time", uniqueId: "anchor_unique_id" }),
  root: columns({ pid: "root_pid", startTime: "root_start_time", uniqueId: "root_unique_id" }),
  boundary: nullableJson,
  deadlines: json,
  policy: json,
  limits: nullableJson,
  exit: columns({
    reason: "exit_reason",
    actor: "exit_actor",
    code: "exit_code",
    signal: "exit_signal",
    source: "exit_source",
    detail: "exit_detail",
    errno: "exit_errno",
    limitHit: "exit_limit",
  }),
  residue: json,
  usage: nullableJson,
  service: nullableJson,
  imported: nullableJson,
});

export const sessionTable = mapTable<SessionRecord>("sessions")(
  { lineage: json, sandboxed: flag, execRules: json },
  ["messages"],
);

export const approvalTable = mapTable<Approval>("approvals")({
  decision: columns({ verdict: "verdict", actor: "actor", at: "decided_at" }),
});

export const messageTable = mapTable<SessionMessage>("session_messages")({}, ["bytes"]);

export const hostTable = mapTable<HostRecord>("hosts")({});

export const gatewayTable = mapTable<GatewayRecord>("gateways")({
  capabilities: json,
  address: nullableJson,
});

export const remoteStopTable = mapTable<RemoteStop>("commands")({ survivors: json });

export const acpSessionTable = mapTable<AcpSession>("acp_sessions")({
  argv: nullableJson,
  rules: json,
  mcpServers: json,
  capabilities: nullableJson,
  agentState: nullableJson,
  settings: nullableJson,
  end: column("kept_end"),
  sending: nullableJson,
  pending: json,
  seq: column("last_seq"),
  problem: nullableJson,
});

export const acpTurnTable = mapTable<AcpTurn>("acp_turns")({
  content: nullableJson,
  before: nullableJson,
  cancel: nullableJson,
  problem: nullableJson,
  text: column("result"),
  toolCalls: json,
  audit: nullableJson,
  contextLost: flag,
});

export const acpUpdateTable = mapTable<AcpUpdate>("acp_updates")({ data: json });

export const permissionRequestTable = mapTable<AcpPermissionRequest>("acp_permissions")({
  rpcId: json,
  options: json,
  decision: columns({ verdict: "verdict", optionId: "option_id", actor: "actor", at: "decided_at" }),
  answered: flag,
});

export const rememberedRuleTable = mapTable<RememberedRule>("acp_permission_rules")({ exact: flag });

export const taskTable = mapTable<TaskRecord>("tasks")({
  text: column("task_text"),
  targets: json,
  origin: nullableJson,
  seq: column("last_seq"),
});

export const taskEventTable = mapTable<TaskEvent>("task_events")({ data: json });

export const outboxTable = mapTable<OutboxEntry>("task_outbox")(
  { key: column("entry_key"), target: json, notification: json },
  ["target_key", "kind", "lease_until"],
);

/** The tables as statements see them. */
export interface Schema {
  readonly runs: RunRow;
  readonly run_events: RunEventRow;
  readonly sessions: ColumnsOf<typeof sessionTable> & {
    /** How many messages and turns the session has had: the last place that was given. */
    messages: Generated<number>;
  };
  readonly session_tokens: {
    hash: string;
    session_id: string;
    created_at: number;
    run_id: Generated<string | null>;
    expires_at: Generated<number | null>;
  };
  readonly approvals: ColumnsOf<typeof approvalTable>;
  readonly hosts: ColumnsOf<typeof hostTable>;
  readonly gateways: ColumnsOf<typeof gatewayTable>;
  readonly commands: ColumnsOf<typeof remoteStopTable>;
  readonly session_messages: ColumnsOf<typeof messageTable> & { bytes: number };
  readonly acp_sessions: ColumnsOf<typeof acpSessionTable>;
  readonly acp_turns: ColumnsOf<typeof acpTurnTable>;
  readonly acp_updates: ColumnsOf<typeof acpUpdateTable>;
  readonly acp_permissions: ColumnsOf<typeof permissionRequestTable>;
  readonly acp_permission_rules: ColumnsOf<typeof rememberedRuleTable>;
  readonly tasks: ColumnsOf<typeof taskTable>;
  readonly task_events: ColumnsOf<typeof taskEventTable>;
  readonly task_outbox: ColumnsOf<typeof outboxTable> & {
    target_key: string;
    kind: OutboxEntry["notification"]["kind"];
    lease_until: number | null;
  };
}

export type RunRow = ColumnsOf<typeof runTable>;

export interface RunEventRow {
  seq: Generated<number>;
  run_id: string;
  /** The state directory of the run. Null: the run has none, or there is no run. */
  state_id: string | null;
  type: RunEventType;
  at: number;
  root_pid: number | null;
  descendants: number;
  /** JSON */
  data: string;
}
