import { z } from "zod";
import {
  CHAT_KINDS,
  NOTIFY_POLICIES,
  TASK_DELIVERIES,
  TASK_EVENT_TYPES,
  TASK_OUTCOMES,
  TASK_RUNTIMES,
  TASK_STATUSES,
} from "./enums.js";
import { notificationTargetSchema } from "./outbox-schema.js";

/** The chat in which a user talks to a session. */
export const chatOriginSchema = z.object({
  chat: z.enum(CHAT_KINDS),
  /** Name of a channel in the config. */
  channel: z.string(),
  /** The chat or thread within the channel. Null: the configured one. */
  address: z.string().nullable(),
});

/** The durable record of background work. */
export const taskSchema = z.object({
  taskId: z.string(),
  /** At most one task has this key: of a run, a turn, or given by the caller. Null: the task has none. */
  key: z.string().nullable(),
  runtime: z.enum(TASK_RUNTIMES),
  /** The creator's own word for the kind of work. */
  kind: z.string().nullable(),
  /** The session that requested the task and is notified; null: an operator. */
  ownerSessionId: z.string().nullable(),
  /** The session that does the work. */
  childSessionId: z.string().nullable(),
  parentTaskId: z.string().nullable(),
  agentId: z.string().nullable(),
  runId: z.string().nullable(),
  turnId: z.string().nullable(),
  label: z.string(),
  /** The request. */
  text: z.string(),
  status: z.enum(TASK_STATUSES),
  delivery: z.enum(TASK_DELIVERIES),
  policy: z.enum(NOTIFY_POLICIES),
  targets: z.array(notificationTargetSchema),
  /** The chat that the work was requested in, also through parent sessions. Null: unknown. */
  origin: chatOriginSchema.nullable(),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  lastEventAt: z.number(),
  progress: z.string().nullable(),
  /** The result. */
  summary: z.string().nullable(),
  /** Only of a task that succeeded. */
  outcome: z.enum(TASK_OUTCOMES).nullable(),
  error: z.string().nullable(),
  /** When the task may be deleted. */
  cleanupAfter: z.number().nullable(),
  /** The interval at which the worker promised to report; null: no promise. */
  heartbeatMs: z.number().nullable(),
  /** Since when no worker of the task is known. */
  missingSince: z.number().nullable(),
  /** Since when the task makes no progress, as its requester was notified. */
  stalledAt: z.number().nullable(),
  /** When the newest message about a change is due. Sets the minimum distance to the next one. */
  noticedAt: z.number().nullable(),
  /** The number of its newest event. */
  seq: z.int(),
  /** Counts the changes. */
  version: z.int(),
});

export const taskEventSchema = z.object({
  taskId: z.string(),
  seq: z.int(),
  at: z.number(),
  type: z.enum(TASK_EVENT_TYPES),
  data: z.record(z.string(), z.unknown()),
});
