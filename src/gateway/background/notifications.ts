import type { ChannelEntries } from "../../config/channels.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { InteractionMode, SessionRecord } from "../../model/session.js";
import type { NotifyPolicy } from "../../model/task.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { MessageStore } from "../../store/messages/contract.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { TaskInput } from "../../tasks/tasks.js";
import { type ChatOrigin, resultTargets } from "../../tasks/notification-routing.js";

/** The notification fields of a request. */
export interface NotifyRequest {
  readonly notify?: NotifyPolicy | undefined;
  readonly origin?: ChatOrigin | undefined;
}

export interface TargetRequest {
  readonly requester: Requester;
  readonly requested: NotifyRequest;
  readonly mode: InteractionMode;
  /** The session that owns the work. Null: the operator. */
  readonly parentSessionId: string | null;
  /** The requester sees the result itself and needs no notification. */
  readonly seesResult?: boolean;
}

/** A caller that waits for the response needs no notification unless it requested one. */
export function waitingOptions(
  { background, notify }: NotifyRequest & { readonly background: boolean },
  disconnected: AbortSignal,
): { readonly waiting: AbortSignal | undefined } {
  return { waiting: background || notify !== undefined ? undefined : disconnected };
}

/** The notification policy and targets of a task. */
export function resolveTargets({
  requester,
  requested: { notify, origin },
  mode,
  parentSessionId,
  seesResult = false,
}: TargetRequest): Pick<TaskInput, "policy" | "targets" | "ownerSessionId"> {
  const requesterSessionId = sessionIdOf(requester);
  const defaultPolicy = origin === undefined ? (seesResult ? "silent" : undefined) : "done_only";
  return {
    ownerSessionId: requesterSessionId ?? parentSessionId,
    policy: notify ?? defaultPolicy,
    targets: resultTargets({ mode, parentSessionId, requesterSessionId, origin: origin ?? null }),
  };
}

/** Throws unless the requester may set `origin` and the channel exists. Called before any work starts. */
export function assertMaySetOrigin(
  { kind }: Requester,
  { origin }: NotifyRequest,
  channels: ChannelEntries,
): void {
  if (origin === undefined) return;
  const { channel } = origin;
  if (kind !== "operator")
    throw new BadInput("origin", "only the operator may set origin; nothing was started");
  if (!Object.hasOwn(channels, channel))
    throw new BadInput("origin", `there is no channel ${channel} in the config; nothing was started`);
}

/** The parent session, open or closed. Null: none. */
export async function findParentSession(
  sessions: Pick<Sessions, "get">,
  { parentSessionKey, lineage }: SessionRecord,
): Promise<string | null> {
  if (parentSessionKey === null) return null;
  for (const id of lineage) if ((await sessions.get(id))?.key === parentSessionKey) return id;
  return null;
}

/** The running turn and the longest queue. */
const MAX_TURNS = 1 + defaults.acpQueued;

/** The open task of the requesting session, which becomes the parent of a new task. */
export async function findCurrentTask(
  store: Pick<TaskStore, "listTasks">,
  requester: Requester,
): Promise<string | null> {
  if (requester.kind !== "session") return null;
  const open = await store.listTasks({ childSessionId: requester.session.id, open: true, limit: MAX_TURNS });
  const task = open.find(({ status }) => status === "running") ?? open.at(-1);
  return task?.taskId ?? null;
}

export type ReadReceiptStore = Pick<MessageStore, "listMessages"> &
  Pick<TaskStore, "listOutbox" | "acknowledgeOutbox"> & {
    getSession(id: string): Promise<SessionRecord | null>;
  };

/** Rows per read. */
const PAGE_SIZE = 500;

/** Marks messages in inboxes as delivered when they were read, and as undeliverable when their session was closed. */
export async function acknowledgeReadMessages(store: ReadReceiptStore, sessionId?: string): Promise<void> {
  const to = sessionId === undefined ? {} : { target: { kind: "session", sessionId } as const };
  const waiting = { ...to, statuses: ["session_queued"], limit: PAGE_SIZE } as const;
  let page = await store.listOutbox(waiting);
  while (page.length > 0) {
    for (const entry of page) {
      const as = await receiptStatus(store, entry);
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
