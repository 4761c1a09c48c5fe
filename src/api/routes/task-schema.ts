import { z } from "zod";
import type { TaskRecord } from "../../model/task.js";
import {
  NOTIFY_POLICIES,
  OUTBOX_STATUSES,
  TASK_DELIVERIES,
  TASK_EVENT_TYPES,
  TASK_OUTCOMES,
  TASK_RUNTIMES,
  TASK_STATUSES,
} from "../../model/enums.js";
import type { NotificationTarget } from "../../model/outbox.js";

const target: z.ZodType<NotificationTarget> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("session"), sessionId: z.string() }),
  z.object({ kind: z.literal("channel"), channel: z.string(), address: z.string().nullable() }),
]);

/** A task's record, field by field as it is stored. */
export const taskSchema: z.ZodType<TaskRecord> = z.object({
  taskId: z.string(),
  key: z.string().nullable(),
  runtime: z.enum(TASK_RUNTIMES),
  kind: z.string().nullable(),
  ownerSessionId: z.string().nullable(),
  childSessionId: z.string().nullable(),
  parentTaskId: z.string().nullable(),
  agentId: z.string().nullable(),
  runId: z.string().nullable(),
  turnId: z.string().nullable(),
  label: z.string(),
  text: z.string(),
  status: z.enum(TASK_STATUSES),
  delivery: z.enum(TASK_DELIVERIES),
  policy: z.enum(NOTIFY_POLICIES),
  targets: z.array(target),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  lastEventAt: z.number(),
  progress: z.string().nullable(),
  summary: z.string().nullable(),
  outcome: z.enum(TASK_OUTCOMES).nullable(),
  error: z.string().nullable(),
  cleanupAfter: z.number().nullable(),
  heartbeatMs: z.number().nullable(),
  missingSince: z.number().nullable(),
  stalledAt: z.number().nullable(),
  noticedAt: z.number().nullable(),
  seq: z.int(),
  version: z.int(),
});

export const taskEventSchema = z.object({
  taskId: z.string(),
  seq: z.int(),
  at: z.number(),
  type: z.enum(TASK_EVENT_TYPES),
  data: z.record(z.string(), z.unknown()),
});

/** One message about it, to one target. */
export const taskMessageSchema = z.object({
  id: z.string(),
  kind: z.enum(["terminal", "state"]),
  target,
  status: z.enum(OUTBOX_STATUSES),
  attempts: z.int(),
  text: z.string(),
  /** Why the last attempt failed. */
  error: z.string().nullable(),
  receipt: z.string().nullable(),
  createdAt: z.number(),
  settledAt: z.number().nullable(),
});
