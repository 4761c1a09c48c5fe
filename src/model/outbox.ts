import type { RecordOf } from "./record-type.js";
import type { notificationSchema, notificationTargetSchema, outboxEntrySchema } from "./outbox-schema.js";

export type Notification = RecordOf<typeof notificationSchema>;
export type NotificationTarget = RecordOf<typeof notificationTargetSchema>;
export type ChannelTarget = Extract<NotificationTarget, { readonly kind: "channel" }>;
export type SessionTarget = Extract<NotificationTarget, { readonly kind: "session" }>;
export type OutboxEntry = RecordOf<typeof outboxEntrySchema>;
export type OutboxStatus = OutboxEntry["status"];

export interface NewOutboxEntry {
  readonly target: NotificationTarget;
  readonly notification: Notification;
  /** The message is not sent before this delay. */
  readonly inMs: number;
}

const OUTBOX_STATUS_RANKS: Readonly<Record<OutboxStatus, number>> = {
  pending: 0,
  session_queued: 1,
  failed: 1,
  parent_missing: 1,
  delivered: 2,
  dismissed: 2,
};

/** The progress of a message. A settled message never returns to a lower rank. */
export function outboxStatusRank(status: OutboxStatus): number {
  return OUTBOX_STATUS_RANKS[status];
}

/** The entry as it is inserted. `dueAt` is set by the store's clock. */
export function newOutboxEntry(
  taskId: string,
  { target, notification }: Omit<NewOutboxEntry, "inMs">,
): OutboxEntry {
  return {
    key: outboxKey(notification.id, target),
    taskId,
    target,
    notification,
    status: "pending",
    attempts: 0,
    unheard: 0,
    spentMs: 0,
    createdAt: notification.at,
    dueAt: 0,
    leaseOwner: null,
    error: null,
    receipt: null,
    settledAt: null,
  };
}

export function targetKey(target: NotificationTarget): string {
  return target.kind === "session"
    ? `session:${target.sessionId}`
    : `${channelKeyPrefix(target.channel)}${target.address ?? ""}`;
}

/** The prefix of the keys of all targets in a channel. */
export function channelKeyPrefix(channel: string): string {
  return `channel:${channel}:`;
}

export function outboxKey(notificationId: string, target: NotificationTarget): string {
  return `${notificationId} ${targetKey(target)}`;
}
