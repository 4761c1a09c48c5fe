import { type Clock, systemClock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import { BadInput, InboxFull, SessionClosed } from "../errors.js";
import { newMessageId } from "../model/ids.js";
import type { MessageDelivery, MessageRole, SessionMessage } from "../model/session.js";
import type { HistoryLimits, MessageCount, MessageFilter, MessageStore } from "../store/messages/store.js";

/** What is said, and by whom. */
export interface NewMessageInput {
  readonly text: string;
  readonly actor: string;
  /** The session that says it. */
  readonly fromSessionId?: string;
  readonly runId?: string;
  /** Said once for this cause, however often it is tried. */
  readonly cause?: string;
  /** Left out: its agent is woken by it, where that can be. */
  readonly deliver?: MessageDelivery;
}

/** How much of a session is kept. */
export const historyBounds: HistoryLimits = {
  bytes: defaults.historyBytes,
  messages: defaults.historyMessages,
  pending: defaults.inboxMessages,
};

/**
 * What was said in sessions, and their inboxes.
 *
 *     send ──▶ waiting ──acknowledge──▶ delivered
 *
 * A backend takes what waits, hands it to its agent, and acknowledges it when the agent has it: what a gateway takes
 * with it into its grave waits again for the next. What is recorded (a prompt that was handed over, an answer) never waits.
 */
export class SessionHistory {
  readonly #store: MessageStore;
  readonly #clock: Clock;
  readonly #listeners = new Set<(sessionId: string) => void>();

  constructor(store: MessageStore, clock: Clock = systemClock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** For the session's agent, at its next turn. Rejects with SessionClosed and InboxFull. */
  async send(
    sessionId: string,
    role: Exclude<MessageRole, "agent">,
    input: NewMessageInput,
  ): Promise<SessionMessage> {
    const sent = await this.#append(sessionId, role, input, null);
    for (const listener of this.#listeners) listener(sessionId);
    return sent;
  }

  /** Something that has reached who it was meant for. */
  record(sessionId: string, role: MessageRole, input: NewMessageInput): Promise<SessionMessage> {
    return this.#append(sessionId, role, input, this.#clock.wall());
  }

  /** What waits, oldest first. It goes on waiting until it is acknowledged. */
  waiting(sessionId: string, limit: number = defaults.inboxMessages): Promise<readonly SessionMessage[]> {
    return this.#store.listMessages(sessionId, { pending: true, limit });
  }

  /** The agent has them. Those of them that it had not before. */
  acknowledge(sessionId: string, ids: readonly string[]): Promise<readonly string[]> {
    return this.#store.deliverMessages(sessionId, ids, this.#clock.wall());
  }

  /** Told whenever a message begins to wait in this process. Others' are found by looking. */
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
      // No database keeps NUL and halves of pairs as they are.
      text: Buffer.from(text).toString().replaceAll("\0", "\uFFFD"),
      runId: runId ?? null,
      cause: cause ?? null,
      at: this.#clock.wall(),
      deliver,
      turnId: null,
      inVain: 0,
      deliveredAt,
    };
    const kept = await this.#store.appendMessage(message, historyBounds);
    if (kept === "closed") throw new SessionClosed(sessionId);
    if (kept === "full") throw new InboxFull(sessionId, historyBounds.pending);
    return kept;
  }
}
