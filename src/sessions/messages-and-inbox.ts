import { type Clock, systemClock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import { BadInput, InboxFull, SessionClosed } from "../errors.js";
import { newMessageId } from "../model/ids.js";
import type { MessageDelivery, MessageRole, SessionMessage } from "../model/session-message.js";
import type { HistoryLimits, MessageCount, MessageFilter, MessageStore } from "../store/messages/contract.js";

interface NewMessageInput {
  readonly text: string;
  readonly actor: string;
  /** The session that sends it. */
  readonly fromSessionId?: string;
  readonly runId?: string;
  /** Idempotency key: one message per cause is stored. */
  readonly cause?: string;
  /** Default `wake`: the message starts a turn of the agent, if possible. */
  readonly deliver?: MessageDelivery;
}

export const historyBounds: HistoryLimits = {
  bytes: defaults.historyBytes,
  messages: defaults.historyMessages,
  pending: defaults.inboxMessages,
};

/**
 * The messages of sessions, and their inboxes.
 *
 *     send ──▶ waiting ──acknowledge──▶ delivered
 *
 * A backend sends waiting messages to its agent and acknowledges them when the agent has them. If the gateway dies in
 * between, they wait for the next one. Recorded messages (a delivered prompt, an answer) never wait.
 */
export class SessionHistory {
  readonly #store: MessageStore;
  readonly #clock: Clock;
  readonly #listeners = new Set<(sessionId: string) => void>();

  constructor(store: MessageStore, clock: Clock = systemClock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Adds a message for the agent's next turn. Rejects with SessionClosed and InboxFull. */
  async send(
    sessionId: string,
    role: Exclude<MessageRole, "agent">,
    input: NewMessageInput,
  ): Promise<SessionMessage> {
    const sent = await this.#append(sessionId, role, input, null);
    for (const listener of this.#listeners) listener(sessionId);
    return sent;
  }

  /** Adds a message that is delivered already. */
  record(sessionId: string, role: MessageRole, input: NewMessageInput): Promise<SessionMessage> {
    return this.#append(sessionId, role, input, this.#clock.wall());
  }

  /** Waiting messages, oldest first. They wait until they are acknowledged. */
  waiting(sessionId: string, limit: number = defaults.inboxMessages): Promise<readonly SessionMessage[]> {
    return this.#store.listMessages(sessionId, { pending: true, limit });
  }

  /** Marks messages as delivered. Resolves with the ids that were not delivered before. */
  acknowledge(sessionId: string, ids: readonly string[]): Promise<readonly string[]> {
    return this.#store.deliverMessages(sessionId, ids, this.#clock.wall());
  }

  /** Called for each message sent in this process. Messages of other processes must be polled. */
  onMessage(listener: (sessionId: string) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }

  list(sessionId: string, filter: MessageFilter): Promise<readonly SessionMessage[]> {
    return this.#store.listMessages(sessionId, filter);
  }

  count(sessionId: string): Promise<MessageCount> {
    return this.#store.countMessages(sessionId);
  }

  async #append(
    sessionId: string,
    role: MessageRole,
    { text, actor, fromSessionId, runId, cause, deliver = "wake" }: NewMessageInput,
    deliveredAt: number | null,
  ): Promise<SessionMessage> {
    if (text.length > defaults.messageChars)
      throw new BadInput(
        "text",
        `a message is at most ${defaults.messageChars} characters; nothing was sent`,
      );
    const message = {
      id: newMessageId(),
      sessionId,
      role,
      fromSessionId: fromSessionId ?? null,
      actor,
      // Databases do not store NUL and lone surrogates.
      text: Buffer.from(text).toString().replaceAll("\0", "\uFFFD"),
      runId: runId ?? null,
      cause: cause ?? null,
      at: this.#clock.wall(),
      deliver,
      turnId: null,
      inVain: 0,
      deliveredAt,
    };
    const stored = await this.#store.appendMessage(message, historyBounds);
    if (stored === "closed") throw new SessionClosed(sessionId);
    if (stored === "full") throw new InboxFull(sessionId, historyBounds.pending);
    return stored;
  }
}
