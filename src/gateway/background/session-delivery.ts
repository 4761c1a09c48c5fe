import { INBOX_ACTOR } from "../../channels/deliver.js";
import { defaults } from "../../defaults.js";
import { InboxFull, SessionClosed } from "../../errors.js";
import { type Notification, type OutboxEntry, outboxKey, type SessionTarget } from "../../model/outbox.js";
import type { SessionRecord } from "../../model/session.js";
import type { SessionMessage } from "../../model/session-message.js";
import type { SessionHistory } from "../../sessions/messages-and-inbox.js";
import type { AcpStore } from "../../store/acp/contract.js";
import type { MessageStore } from "../../store/messages/contract.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import { DeliveryFailed, type DeliveryReceipt } from "../../tasks/delivery-attempt.js";
import { withUserNotified } from "../../tasks/notification-text.js";
import { decideWake, wakeDepth } from "../../tasks/wake-limits.js";

interface SessionDeliveryDeps {
  readonly store: Pick<TaskStore, "getTask" | "commitTask" | "listOutbox"> &
    Pick<AcpStore, "getAcpSession" | "listAcpTurns"> &
    Pick<MessageStore, "listMessages"> & { getSession(id: string): Promise<SessionRecord | null> };
  readonly history: Pick<SessionHistory, "send" | "acknowledge">;
  /** Called when a message was added to the outbox. */
  readonly onNotice: () => void;
  readonly now?: () => number;
}

/**
 * Delivers the ends of tasks to agents by waking them:
 *
 *     message that wakes ──turn──▶ delivered; the task of that turn notifies the user
 *        │ no agent, a limit, or the agent does not start
 *        ▼
 *     notice for the next turn, and a message to the user
 *
 * Every step is idempotent: another gateway may repeat it after a crash.
 */
export class SessionDelivery {
  readonly #deps: SessionDeliveryDeps;
  readonly #now: () => number;

  constructor(deps: SessionDeliveryDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? Date.now;
  }

  async deliver(target: SessionTarget, notification: Notification): Promise<DeliveryReceipt> {
    const { sessionId } = target;
    const { id } = notification;
    // An earlier attempt has already decided how the result is delivered.
    const known = await this.#findMessage(sessionId, id);
    const wakes = known === null ? await this.#mayWake(sessionId, notification) : known.deliver === "wake";
    try {
      const { deliveredAt } = await this.#send(target, notification, id, wakes);
      if (!wakes) await this.#notifyUser(target, notification);
      return deliveredAt === null
        ? { status: "session_queued" }
        : { status: "delivered", receipt: sessionId };
    } catch (error) {
      // Not permanent: the inbox may have room at the next attempt.
      if (error instanceof InboxFull) throw new DeliveryFailed(error.message, { cause: error });
      if (!(error instanceof SessionClosed)) throw error;
      await this.#notifyUser(target, notification);
      return { status: "parent_missing" };
    }
  }

  /** The status of a result that waits for its agent. Null: it waits. */
  async statusOf(entry: OutboxEntry, target: SessionTarget): Promise<"delivered" | "parent_missing" | null> {
    const { notification } = entry;
    const message = await this.#findMessage(target.sessionId, notification.id);
    // The task of the turn notifies the user.
    if (message !== null && message.deliver === "wake" && message.turnId !== null) return "delivered";
    const session = await this.#deps.store.getSession(target.sessionId);
    if (session === null || session.closedAt !== null) {
      if (message?.deliveredAt === null) await this.#notifyUser(target, notification);
      return "parent_missing";
    }
    // Only delivered messages are deleted before their session.
    if (message === null) return "delivered";
    if (message.deliveredAt === null)
      return message.deliver === "wake" ? this.#withdrawUnwoken(message, target, notification) : null;
    // A gateway that was killed may have withdrawn the message and not yet notified the user.
    if ((await this.#findMessage(target.sessionId, noticeCause(notification))) !== null)
      await this.#notifyUser(target, notification);
    return "delivered";
  }

  /** Sends a result to the user that has not woken the idle agent. Null: the agent may still take it. */
  async #withdrawUnwoken(
    message: SessionMessage,
    target: SessionTarget,
    notification: Notification,
  ): Promise<"delivered" | null> {
    const { store, history } = this.#deps;
    const { sessionId } = target;
    if (this.#now() - message.at < defaults.wakeWaitMs) return null;
    const busy = await store.listAcpTurns({ sessionId, states: ["queued", "running"], limit: 1 });
    if (busy.length > 0) return null;
    // First, so that a gateway after a crash knows that the message was withdrawn and not read.
    await this.#send(target, notification, noticeCause(notification), false);
    // A turn has taken the message meanwhile.
    if ((await history.acknowledge(sessionId, [message.id])).length === 0) return null;
    await this.#notifyUser(target, notification);
    return "delivered";
  }

  #send(
    target: SessionTarget,
    notification: Notification,
    cause: string,
    wakes: boolean,
  ): Promise<SessionMessage> {
    const { fallback, sessionId } = target;
    const users = wakes || fallback === undefined ? [] : [fallback];
    const { text } = withUserNotified(notification, users);
    const deliver = wakes ? "wake" : "next-turn";
    return this.#deps.history.send(sessionId, "system", { text, actor: INBOX_ACTOR, cause, deliver });
  }

  async #mayWake(sessionId: string, { taskId }: Notification): Promise<boolean> {
    const { store } = this.#deps;
    const acp = await store.getAcpSession(sessionId);
    const hasAgent =
      acp !== null && acp.mode === "session" && acp.state !== "closing" && acp.state !== "closed";
    const woken = await store.listMessages(sessionId, { deliver: "wake", limit: 2 * defaults.wakesPerHour });
    const wokenAt = woken.filter(({ role }) => role === "system").map(({ at }) => at);
    const depth = hasAgent ? await wakeDepth((id) => store.getTask(id), taskId) : 0;
    return decideWake({ hasAgent, depth, wokenAt }, this.#now()).wakes;
  }

  /** Adds the message to the user to the outbox, once. */
  async #notifyUser({ fallback }: SessionTarget, notification: Notification): Promise<void> {
    if (fallback === undefined) return;
    const { store, onNotice } = this.#deps;
    const { id, taskId } = notification;
    const key = outboxKey(id, fallback);
    for (;;) {
      const task = await store.getTask(taskId);
      const sent = await store.listOutbox({ taskId });
      if (task === null || sent.some((entry) => entry.key === key)) return;
      const data = { actor: "gateway", why: "the agent was not woken", channel: fallback.channel };
      const changed = await store.commitTask(taskId, task.version, {
        set: { delivery: "pending" },
        events: [{ type: "retried", at: Math.max(this.#now(), task.lastEventAt), data }],
        notices: [{ target: fallback, notification, inMs: 0 }],
      });
      if (changed === null) continue;
      onNotice();
      return;
    }
  }

  async #findMessage(sessionId: string, cause: string): Promise<SessionMessage | null> {
    const [message] = await this.#deps.store.listMessages(sessionId, { cause, limit: 1 });
    return message ?? null;
  }
}

/** The cause of the notice in place of a message that did not wake the agent. */
function noticeCause({ id }: Notification): string {
  return `${id}:notice`;
}
