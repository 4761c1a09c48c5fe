import { type Clock, systemClock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import { BadInput, InboxFull, SessionClosed } from "../errors.js";
import { newMessageId } from "../model/ids.js";
import type { MessageDelivery, MessageRole, SessionMessage, SessionRecord } from "../model/session.js";
import type { HistoryLimits, MessageCount, MessageFilter, MessageStore } from "../store/messages/contract.js";

export interface NewMessageInput {
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

/** Inbox messages as text before a prompt. */
export interface PackedMessages {
  readonly messages: readonly string[];
  readonly text: string;
}

export interface SenderLookup {
  get(sessionId: string): Promise<Pick<SessionRecord, "key" | "agentId"> | null>;
}

/** Packs waiting messages, oldest first, up to a length; always at least one. */
export async function packMessages(
  waiting: readonly SessionMessage[],
  senders: SenderLookup,
  chars: number,
): Promise<PackedMessages> {
  const messages: string[] = [];
  let text = "";
  for (const message of waiting) {
    const frame = `${await quoteMessage(message, senders)}\n\n`;
    if (messages.length > 0 && text.length + frame.length > chars) break;
    messages.push(message.id);
    text += frame;
  }
  return { messages, text };
}

/** The messages that a prompt contains. */
export async function findDelivered(
  prompt: string,
  messages: readonly SessionMessage[],
  senders: SenderLookup,
): Promise<readonly string[]> {
  const delivered: string[] = [];
  let from = 0;
  for (const message of messages) {
    const frame = `${await quoteMessage(message, senders)}\n\n`;
    // In order, because two messages may have the same text.
    const at = prompt.indexOf(frame, from);
    if (at === -1) continue;
    from = at + frame.length;
    delivered.push(message.id);
  }
  return delivered;
}

/** All characters that a program may treat as a line break. */
const LINE_BREAK = /\r\n|[\n\v\f\r\u0085\u2028\u2029]/;

/** Names the sender in one line and quotes all other lines, so that a message cannot imitate another sender or the prompt. */
export async function quoteMessage(message: SessionMessage, senders: SenderLookup): Promise<string> {
  const heading = (await messageHeading(message, senders)).split(LINE_BREAK).join(" ");
  const { text, inVain } = message;
  const quoted = (inVain === 0 ? text : `(again) ${text}`).split(LINE_BREAK);
  return [`${heading}:`, ...quoted.map((line) => `> ${line}`)].join("\n");
}

async function messageHeading(
  { role, fromSessionId, actor }: SessionMessage,
  senders: SenderLookup,
): Promise<string> {
  if (role === "system") return "Notice from Holdfast, not from a person";
  if (fromSessionId === null) return `Message from ${actor === "operator" ? "the operator" : actor}`;
  const sender = await senders.get(fromSessionId);
  if (sender === null) return `Message from session ${fromSessionId}`;
  return `Message from session ${sender.key} (${sender.agentId === null ? "no agent" : `agent ${sender.agentId}`})`;
}
