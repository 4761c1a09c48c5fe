import { z } from "zod";
import { OUTBOX_STATUSES, TASK_OUTCOMES, TASK_RUNTIMES, TASK_STATUSES } from "./enums.js";

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
