import type { MessageStore } from "../../store/messages/store.js";
import type { SessionRecord } from "../../model/session.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { TaskStore } from "../../store/tasks/store.js";

export type ReadReceiptStore = Pick<MessageStore, "listMessages"> &
  Pick<TaskStore, "listOutbox" | "acknowledgeOutbox"> & {
    getSession(id: string): Promise<SessionRecord | null>;
  };

/** Read at a time. */
const PAGE_SIZE = 500;

/** What was put into sessions and has been read since is delivered; what was not, and never will be, has nobody to read it. */
export async function acknowledgeReadMessages(store: ReadReceiptStore, sessionId?: string): Promise<void> {
  const to = sessionId === undefined ? {} : { target: { kind: "session", sessionId } as const };
  const waiting = { ...to, statuses: ["session_queued"], limit: PAGE_SIZE } as const;
  let page = await store.listOutbox(waiting);
  while (page.length > 0) {
    for (const entry of page) {
      const as = await receiptStatus(store, entry);
      if (as !== null) await store.acknowledgeOutbox(entry.key, entry.taskId, Date.now(), as);
    }
    // What was not read stays, and is not in the way of what was.
    page = await store.listOutbox({ ...waiting, after: page.at(-1) });
  }
}

/** Null: it waits. */
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
  // Only what was delivered is forgotten before its session.
  return message === undefined ? "delivered" : null;
}
