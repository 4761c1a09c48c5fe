import type { Insertable, Selectable } from "kysely";
import { toColumns, toFields, type Columns } from "../columns.js";
import type { OutboxTable, TaskEventTable, TaskTable } from "../schema.js";
import type { TaskEvent, TaskRecord } from "../../model/task.js";
import type { Notification, OutboxEntry, NotificationTarget } from "../../model/outbox.js";

const taskColumns: Columns<TaskRecord, TaskTable> = {
  taskId: ["task_id", "plain"],
  key: ["key", "plain"],
  runtime: ["runtime", "plain"],
  kind: ["kind", "plain"],
  ownerSessionId: ["owner_session_id", "plain"],
  childSessionId: ["child_session_id", "plain"],
  parentTaskId: ["parent_task_id", "plain"],
  agentId: ["agent_id", "plain"],
  runId: ["run_id", "plain"],
  turnId: ["turn_id", "plain"],
  label: ["label", "plain"],
  text: ["task_text", "plain"],
  status: ["status", "plain"],
  delivery: ["delivery", "plain"],
  policy: ["policy", "plain"],
  targets: ["targets", "json"],
  createdAt: ["created_at", "plain"],
  startedAt: ["started_at", "plain"],
  endedAt: ["ended_at", "plain"],
  lastEventAt: ["last_event_at", "plain"],
  progress: ["progress", "plain"],
  summary: ["summary", "plain"],
  outcome: ["outcome", "plain"],
  error: ["error", "plain"],
  cleanupAfter: ["cleanup_after", "plain"],
  heartbeatMs: ["heartbeat_ms", "plain"],
  missingSince: ["missing_since", "plain"],
  stalledAt: ["stalled_at", "plain"],
  noticedAt: ["noticed_at", "plain"],
  seq: ["last_seq", "plain"],
  version: ["version", "plain"],
};

export function toTaskColumns(part: Partial<TaskRecord>): Insertable<TaskTable> {
  return toColumns(taskColumns, part) as unknown as Insertable<TaskTable>;
}

export function toTaskRecord(row: Selectable<TaskTable>): TaskRecord {
  return toFields<TaskRecord, TaskTable>(taskColumns, row);
}

export function toTaskEvent({ task_id, seq, at, type, data }: Selectable<TaskEventTable>): TaskEvent {
  return { taskId: task_id, seq, at, type, data: JSON.parse(data) as TaskEvent["data"] };
}

export function toOutboxEntry(row: Selectable<OutboxTable>): OutboxEntry {
  return {
    key: row.entry_key,
    taskId: row.task_id,
    target: JSON.parse(row.target) as NotificationTarget,
    notification: JSON.parse(row.notification) as Notification,
    status: row.status,
    attempts: row.attempts,
    unheard: row.unheard,
    spentMs: row.spent_ms,
    createdAt: row.created_at,
    dueAt: row.due_at,
    leaseOwner: row.lease_owner,
    error: row.error,
    receipt: row.receipt,
    settledAt: row.settled_at,
  };
}
