import { z } from "zod";
import {
  CHAT_KINDS,
  NOTIFY_POLICIES,
  OUTBOX_STATUSES,
  TASK_DELIVERIES,
  TASK_EVENT_TYPES,
  TASK_OUTCOMES,
  TASK_RUNTIMES,
  TASK_STATUSES,
} from "./enums.js";

/** The chat in which a user talks to a session. */
export const chatOriginSchema = z.object({
  chat: z.enum(CHAT_KINDS),
  /** Name of a channel in the config. */
  channel: z.string(),
  /** The chat or thread within the channel. Null: the configured one. */
  address: z.string().nullable(),
});

const channelTargetSchema = z.object({
  kind: z.literal("channel"),
  channel: z.string(),
  /** The chat or thread within the channel. */
  address: z.string().nullable(),
  /** `end`: only the end of the task is notified. */
  on: z.literal("end").optional(),
});

const sessionTargetSchema = z.object({
  /** The parent session, as a system message. */
  kind: z.literal("session"),
  sessionId: z.string(),
  /** The end of the task wakes the session's agent. */
  wake: z.literal(true).optional(),
  /** Notified of the end if the agent cannot be woken. */
  fallback: channelTargetSchema.optional(),
});

export const notificationTargetSchema = z.discriminatedUnion("kind", [
  sessionTargetSchema,
  channelTargetSchema,
]);

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

/** The content of a message. A repeated message has the same id, so that a receiver can drop it. */
export const notificationSchema = z.object({
  /** `task-terminal:<taskId>` or `task-state:<taskId>:<seq>`. */
  id: z.string(),
  taskId: z.string(),
  kind: z.enum(["terminal", "state"]),
  status: z.enum(TASK_STATUSES),
  outcome: z.enum(TASK_OUTCOMES).nullable(),
  /** The task's label, on one line. */
  label: z.string(),
  runtime: z.enum(TASK_RUNTIMES),
  /** The result or the progress, bounded; never the whole output. */
  summary: z.string(),
  error: z.string().nullable(),
  at: z.number(),
  /** The short message as a person reads it. */
  text: z.string(),
  /** The message may have been delivered before: the sender was gone before it could record the outcome. */
  repeat: z.literal(true).optional(),
});

/** One message on its way to one target. */
export const outboxEntrySchema = z.object({
  /** Made of the notification and its target by `outboxKey`. */
  key: z.string(),
  taskId: z.string(),
  target: notificationTargetSchema,
  notification: notificationSchema,
  status: z.enum(OUTBOX_STATUSES),
  /** Counted before each attempt is made. */
  attempts: z.int(),
  /** How many attempts have an unknown outcome: the sender was gone before it could record it. */
  unheard: z.int(),
  /** How much of the time for all attempts is used. */
  spentMs: z.number(),
  createdAt: z.number(),
  /** On the store's clock. */
  dueAt: z.number(),
  /** The sender; empty: the sender is gone. */
  leaseOwner: z.string().nullable(),
  /** Why the last attempt failed. */
  error: z.string().nullable(),
  receipt: z.string().nullable(),
  /** When it reached its present status. */
  settledAt: z.number().nullable(),
});
