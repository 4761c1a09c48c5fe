import type { Generated } from "kysely";
import type {
  ApprovalVerdict,
  MessageDelivery,
  MessageRole,
  InteractionMode,
  Visibility,
} from "../model/session.js";
import type { RemoteStopOutcome, RemoteStop } from "../model/gateway.js";
import type { RunEventType } from "../model/run-event.js";
import type { Emptiness, EndReason, LimitHit, RunExit, RunIo, RunKind, RunStateName } from "../model/run.js";
import type {
  AcpMode,
  AcpTurnOutcome,
  AcpSessionState,
  AcpTurnState,
  AcpUpdateType,
  PermissionVerdict,
  ReapPolicy,
} from "../model/acp.js";
import type {
  NotifyPolicy,
  TaskDelivery,
  TaskEventType,
  TaskOutcome,
  TaskRuntime,
  TaskStatus,
} from "../model/task.js";
import type { Notification, OutboxStatus } from "../model/outbox.js";

/** The tables, as statements see them. JSON is text in every database, so that one mapping serves all. */
export interface Schema {
  readonly runs: RunTable;
  readonly run_events: RunEventTable;
  readonly sessions: SessionTable;
  readonly session_tokens: SessionTokenTable;
  readonly approvals: ApprovalTable;
  readonly hosts: HostTable;
  readonly gateways: GatewayTable;
  readonly commands: RemoteStopTable;
  readonly session_messages: MessageTable;
  readonly acp_sessions: AcpSessionTable;
  readonly acp_turns: AcpTurnTable;
  readonly acp_updates: AcpUpdateTable;
  readonly acp_permissions: AcpPermissionTable;
  readonly tasks: TaskTable;
  readonly task_events: TaskEventTable;
  readonly task_outbox: OutboxTable;
}

export interface RunTable {
  run_id: string;
  lease_id: string;
  session_key: string | null;
  session_id: string | null;
  backend_id: string | null;
  agent_id: string | null;
  /** JSON */
  labels: string;
  kind: RunKind;
  io: RunIo;
  command: string;
  command_hash: string;
  cwd: string;
  host_id: string;
  boot_id: string;
  pid_namespace: string;
  time_namespace: string | null;
  /** Null: from before there were several. */
  state_id: string | null;
  anchor_path: string;
  anchor_pid: number | null;
  anchor_start_time: number | null;
  anchor_unique_id: string | null;
  root_pid: number | null;
  root_start_time: number | null;
  root_unique_id: string | null;
  process_group_id: number | null;
  /** JSON */
  boundary: string | null;
  tier: string | null;
  state: RunStateName;
  origin_instance_id: string;
  owner_instance_id: string;
  lease_epoch: number;
  lease_expires_at: number;
  /** JSON */
  deadlines: string;
  /** JSON */
  policy: string;
  /** JSON; null: from before there were any. */
  limits: string | null;
  created_at: number;
  started_at: number | null;
  last_output_at: number | null;
  updated_at: number;
  ended_at: number | null;
  exit_reason: EndReason | null;
  exit_actor: string | null;
  exit_code: number | null;
  exit_signal: string | null;
  exit_source: RunExit["source"] | null;
  exit_detail: string | null;
  exit_errno: number | null;
  exit_limit: LimitHit | null;
  /** JSON */
  residue: string;
  residue_count: number;
  /** JSON */
  usage: string | null;
  emptiness: Emptiness | null;
  /** JSON */
  service: string | null;
  /** JSON */
  imported: string | null;
  hidden_at: number | null;
}

export interface RunEventTable {
  seq: Generated<number>;
  run_id: string;
  /** As the run says. Null: it does not, or there is none. */
  state_id: string | null;
  type: RunEventType;
  at: number;
  root_pid: number | null;
  descendants: number;
  /** JSON */
  data: string;
}

export interface SessionTable {
  id: string;
  key: string;
  agent_id: string | null;
  owner_session_key: string | null;
  spawned_by: string | null;
  parent_session_key: string | null;
  /** JSON */
  lineage: string;
  backend: string | null;
  gateway_instance_id: string;
  interaction_mode: InteractionMode;
  sandboxed: 0 | 1;
  visibility: Visibility;
  /** JSON */
  exec_rules: string;
  created_at: number;
  closed_at: number | null;
  agent_session_id: string | null;
  messages: Generated<number>;
}

export interface SessionTokenTable {
  hash: string;
  session_id: string;
  created_at: number;
  run_id: Generated<string | null>;
  expires_at: Generated<number | null>;
}

export interface ApprovalTable {
  id: string;
  session_id: string;
  gateway_instance_id: string;
  executable: string;
  command: string;
  cwd: string;
  rule: number | null;
  asked_at: number;
  expires_at: number;
  verdict: ApprovalVerdict | null;
  actor: string | null;
  decided_at: number | null;
}

export interface HostTable {
  host_id: string;
  name: string;
  platform: string;
  first_seen_at: number;
  last_seen_at: number;
}

export interface GatewayTable {
  instance_id: string;
  host_id: string;
  host_name: string;
  boot_id: string;
  pid_namespace: string;
  state_id: string;
  directory: string;
  version: string;
  /** JSON */
  capabilities: string;
  /** JSON */
  address: string | null;
  peer_key: string | null;
  started_at: number;
  heartbeat_at: number;
  stopped_at: number | null;
}

export interface RemoteStopTable {
  id: string;
  run_id: string;
  target: string;
  kind: RemoteStop["kind"];
  actor: string;
  grace_ms: number | null;
  handed_over_by: string;
  created_at: number;
  accepted_at: number | null;
  done_at: number | null;
  outcome: RemoteStopOutcome | null;
  /** JSON */
  survivors: string;
  error: string | null;
}

export interface MessageTable {
  id: string;
  session_id: string;
  seq: number;
  role: MessageRole;
  from_session_id: string | null;
  actor: string;
  text: string;
  bytes: number;
  run_id: string | null;
  cause: string | null;
  at: number;
  deliver: MessageDelivery;
  turn_id: string | null;
  delivered_at: number | null;
  in_vain: number;
}

export interface AcpSessionTable {
  session_id: string;
  gateway_instance_id: string;
  agent: string | null;
  /** JSON */
  argv: string | null;
  command: string;
  cwd: string;
  mode: AcpMode;
  /** JSON */
  rules: string;
  reap: ReapPolicy;
  state: AcpSessionState;
  run_id: string | null;
  tmpdir: string | null;
  agent_session_id: string | null;
  /** JSON */
  capabilities: string | null;
  kept_end: number;
  /** JSON */
  sending: string | null;
  /** JSON */
  pending: string;
  last_seq: number;
  version: number;
  /** JSON */
  problem: string | null;
  created_at: number;
  updated_at: number;
  closed_at: number | null;
}

export interface AcpTurnTable {
  turn_id: string;
  session_id: string;
  ordinal: number;
  place: number;
  state: AcpTurnState;
  prompt: string;
  asked_by: string;
  timeout_ms: number | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  request_id: number | null;
  /** JSON */
  before: string | null;
  /** JSON */
  cancel: string | null;
  outcome: AcpTurnOutcome | null;
  stop_reason: string | null;
  /** JSON */
  problem: string | null;
  result: string;
  /** JSON */
  tool_calls: string;
  /** JSON */
  audit: string | null;
  context_lost: 0 | 1;
  kept_bytes: number;
  dropped_updates: number;
}

export interface AcpUpdateTable {
  session_id: string;
  seq: number;
  turn_id: string | null;
  type: AcpUpdateType;
  at: number;
  /** JSON */
  data: string;
}

export interface AcpPermissionTable {
  id: string;
  session_id: string;
  turn_id: string | null;
  /** JSON */
  rpc_id: string;
  tool_call_id: string;
  kind: string | null;
  title: string | null;
  /** JSON */
  options: string;
  rule: number | null;
  asked_at: number;
  expires_at: number;
  verdict: PermissionVerdict | null;
  option_id: string | null;
  actor: string | null;
  decided_at: number | null;
  answered: 0 | 1;
}

export interface TaskTable {
  task_id: string;
  key: string | null;
  runtime: TaskRuntime;
  kind: string | null;
  owner_session_id: string | null;
  child_session_id: string | null;
  parent_task_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  turn_id: string | null;
  label: string;
  task_text: string;
  status: TaskStatus;
  delivery: TaskDelivery;
  policy: NotifyPolicy;
  /** JSON */
  targets: string;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  last_event_at: number;
  progress: string | null;
  summary: string | null;
  outcome: TaskOutcome | null;
  error: string | null;
  cleanup_after: number | null;
  heartbeat_ms: number | null;
  missing_since: number | null;
  stalled_at: number | null;
  noticed_at: number | null;
  last_seq: number;
  version: number;
}

export interface TaskEventTable {
  task_id: string;
  seq: number;
  at: number;
  type: TaskEventType;
  /** JSON */
  data: string;
}

export interface OutboxTable {
  entry_key: string;
  task_id: string;
  target_key: string;
  kind: Notification["kind"];
  /** JSON */
  target: string;
  /** JSON */
  notification: string;
  status: OutboxStatus;
  attempts: number;
  unheard: number;
  spent_ms: number;
  created_at: number;
  due_at: number;
  lease_owner: string | null;
  lease_until: number | null;
  error: string | null;
  receipt: string | null;
  settled_at: number | null;
}
