export const TASK_RUNTIMES = ["acp", "subagent", "exec", "external"] as const;
export type TaskRuntime = (typeof TASK_RUNTIMES)[number];

/**
 *     queued ──started──▶ running ──▶ succeeded │ failed │ timed_out
 *        └────────────────────┴─────▶ cancelled │ lost
 *
 * Work can also end before anybody said that it had started: it then passes through `running` unseen.
 */
export const TASK_STATUSES = [
  "queued",
  "running",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
  "lost",
] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

/** When the requester hears of it: at its end, at every change, never. */
export const NOTIFY_POLICIES = ["done_only", "state_changes", "silent"] as const;
export type NotifyPolicy = (typeof NOTIFY_POLICIES)[number];

/** What came of work that went through: done, or it needs somebody before it can go on. */
export const TASK_OUTCOMES = ["succeeded", "blocked"] as const;
export type TaskOutcome = (typeof TASK_OUTCOMES)[number];

/** What is told to whom. The same id whenever it is told again: a receiver drops what it has had. */
export interface Notification {
  /** `task-terminal:<taskId>` or `task-state:<taskId>:<seq>`. */
  readonly id: string;
  readonly taskId: string;
  readonly kind: "terminal" | "state";
  readonly status: TaskStatus;
  readonly outcome: TaskOutcome | null;
  /** What the task is called, on one line. */
  readonly label: string;
  readonly runtime: TaskRuntime;
  /** The result or the progress, bounded; never the child's chatter. */
  readonly summary: string;
  readonly error: string | null;
  readonly at: number;
  /** The short message as a person reads it. */
  readonly text: string;
  /** It may have been told before: whoever tried was gone before it could say. */
  readonly repeat?: true;
}

/** Where to. */
export type NotificationTarget =
  /** The parent session, as a system event. */
  | { readonly kind: "session"; readonly sessionId: string }
  /** One of the configuration; `address`: the chat or thread within it. */
  | { readonly kind: "channel"; readonly channel: string; readonly address: string | null };

/**
 * Of a task: whether its requester was told how it ended. `session_queued`: it waits in the parent session, and is not
 * delivered until that has read it. `not_applicable`: nobody is to be told.
 */
export const TASK_DELIVERIES = [
  "pending",
  "delivered",
  "session_queued",
  "failed",
  "parent_missing",
  "not_applicable",
] as const;
export type TaskDelivery = (typeof TASK_DELIVERIES)[number];

/** The durable record of background work. */
export interface TaskRecord {
  readonly taskId: string;
  /** What may have one task only: a run, a turn, or whatever a caller gave a name. Null: it is like no other. */
  readonly key: string | null;
  readonly runtime: TaskRuntime;
  /** The creator's own word for this sort of work. */
  readonly kind: string | null;
  /** Who asked for it, and is told of it; null: an operator. */
  readonly ownerSessionId: string | null;
  /** Who does it. */
  readonly childSessionId: string | null;
  readonly parentTaskId: string | null;
  readonly agentId: string | null;
  readonly runId: string | null;
  readonly turnId: string | null;
  readonly label: string;
  /** What was asked for. */
  readonly text: string;
  readonly status: TaskStatus;
  readonly delivery: TaskDelivery;
  readonly policy: NotifyPolicy;
  readonly targets: readonly NotificationTarget[];
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly lastEventAt: number;
  readonly progress: string | null;
  /** What came of it. */
  readonly summary: string | null;
  /** Of one that has succeeded, and only of such. */
  readonly outcome: TaskOutcome | null;
  readonly error: string | null;
  /** When it may be forgotten. */
  readonly cleanupAfter: number | null;
  /** How often whoever does it promised to be heard of; null: nothing was promised. */
  readonly heartbeatMs: number | null;
  /** Since when nobody is known to do it. */
  readonly missingSince: number | null;
  /** Since when it has made no progress, as its requester was told. */
  readonly stalledAt: number | null;
  /** When the newest message about a change is to be told: the next one keeps its distance. */
  readonly noticedAt: number | null;
  /** Of its newest event. */
  readonly seq: number;
  /** Counts the changes. */
  readonly version: number;
}

/** Once set, for good; `seq` and `version` are counted by the store. */
export type TaskPatch = Partial<
  Omit<TaskRecord, "taskId" | "key" | "runtime" | "ownerSessionId" | "createdAt" | "seq" | "version">
>;

export const TASK_EVENT_TYPES = [
  "created",
  "started",
  "progress",
  "stalled",
  "policy",
  "linked",
  "missing",
  "ended",
  "refused",
  "retried",
  "dismissed",
  "restored",
] as const;
export type TaskEventType = (typeof TASK_EVENT_TYPES)[number];

export interface TaskEvent {
  readonly taskId: string;
  readonly seq: number;
  readonly at: number;
  readonly type: TaskEventType;
  readonly data: Readonly<Record<string, unknown>>;
}

export type NewTaskEvent = Omit<TaskEvent, "taskId" | "seq">;

/**
 *     pending ──▶ delivered
 *        │  └───▶ session_queued ──read──▶ delivered
 *        │               └──session ended──▶ parent_missing
 *        ▼
 *     failed │ parent_missing ──retry──▶ pending
 *        └──dismiss──▶ dismissed
 */
export const OUTBOX_STATUSES = [
  "pending",
  "delivered",
  "session_queued",
  "failed",
  "parent_missing",
  "dismissed",
] as const;
export type OutboxStatus = (typeof OUTBOX_STATUSES)[number];

const OUTBOX_STATUS_RANKS: Readonly<Record<OutboxStatus, number>> = {
  pending: 0,
  session_queued: 1,
  failed: 1,
  parent_missing: 1,
  delivered: 2,
  dismissed: 2,
};

/** How far a message has come: what is settled is never taken back. */
export function outboxStatusRank(status: OutboxStatus): number {
  return OUTBOX_STATUS_RANKS[status];
}

/** One message on its way to one target. */
export interface OutboxEntry {
  /** Of the notification and its target: `outboxKey`. */
  readonly key: string;
  readonly taskId: string;
  readonly target: NotificationTarget;
  readonly notification: Notification;
  readonly status: OutboxStatus;
  /** Counted before each is made. */
  readonly attempts: number;
  /** Of so many of them nobody knows what came: whoever made one was gone before it could say. */
  readonly unheard: number;
  /** How much of the time it has for all its attempts is gone. */
  readonly spentMs: number;
  readonly createdAt: number;
  /** On the store's clock. */
  readonly dueAt: number;
  /** Who is sending it; empty: whoever was is gone. */
  readonly leaseOwner: string | null;
  /** Why the last attempt failed. */
  readonly error: string | null;
  readonly receipt: string | null;
  /** When it came to where it is now. */
  readonly settledAt: number | null;
}

export interface NewOutboxEntry {
  readonly target: NotificationTarget;
  readonly notification: Notification;
  /** Not to be sent before. */
  readonly inMs: number;
}

export function isTaskEnded(status: TaskStatus): boolean {
  return status !== "queued" && status !== "running";
}

export function targetKey(target: NotificationTarget): string {
  return target.kind === "session"
    ? `session:${target.sessionId}`
    : `${channelKeyPrefix(target.channel)}${target.address ?? ""}`;
}

/** What the keys of all targets in a channel begin with. */
export function channelKeyPrefix(channel: string): string {
  return `channel:${channel}:`;
}

export function outboxKey(notificationId: string, target: NotificationTarget): string {
  return `${notificationId} ${targetKey(target)}`;
}
