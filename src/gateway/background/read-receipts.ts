import type { OutboxEntry } from "../../model/outbox.js";
import type { SessionRecord } from "../../model/session.js";
import type { MessageStore } from "../../store/messages/contract.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { SessionDelivery } from "./session-delivery.js";

export type ReadReceiptStore = Pick<MessageStore, "listMessages"> &
  Pick<TaskStore, "listOutbox" | "acknowledgeOutbox"> & {
    getSession(id: string): Promise<SessionRecord | null>;
  };

/** Rows per read. */
const PAGE_SIZE = 500;

/**
 * Marks messages in inboxes as delivered when they were read, and as undeliverable when their session was closed.
 * `waker`: for results that wake agents.
 */
export async function acknowledgeReadMessages(
  store: ReadReceiptStore,
  {
    sessionId,
    waker,
  }: { readonly sessionId?: string; readonly waker?: Pick<SessionDelivery, "statusOf"> } = {},
): Promise<void> {
  const to = sessionId === undefined ? {} : { target: { kind: "session", sessionId } as const };
  const waiting = { ...to, statuses: ["session_queued"], limit: PAGE_SIZE } as const;
  let page = await store.listOutbox(waiting);
  while (page.length > 0) {
    for (const entry of page) {
      const as =
        waker !== undefined && entry.target.kind === "session" && entry.target.wake === true
          ? await waker.statusOf(entry, entry.target)
          : await receiptStatus(store, entry);
      if (as !== null) await store.acknowledgeOutbox(entry.key, entry.taskId, Date.now(), as);
    }
    // Unread messages stay in the inbox.
    page = await store.listOutbox({ ...waiting, after: page.at(-1) });
  }
}

/** Null: the message waits. */
async function receiptStatus(
  store: ReadReceiptStore,
  { target, notification: { id: cause } }: OutboxEntry,
): Promise<"delivered" | "parent_missing" | null> {
  if (target.kind !== "session") return null;
  const { sessionId } = target;
  const [message] = await store.listMessages(sessionId, { cause, limit: 1 });
  if (message !== undefined && message.deliveredAt !== null) return "delivered";
  const session = await store.getSession(sessionId);
  if (session === null || session.closedAt !== null) return "parent_missing";
  // Only delivered messages are deleted before their session.
  return message === undefined ? "delivered" : null;
}
