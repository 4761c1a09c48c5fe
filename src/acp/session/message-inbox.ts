import { defaults } from "../../defaults.js";
import type { SessionMessage } from "../../model/session-message.js";
import { type PackedMessages, packMessages, quoteMessage } from "../../sessions/pack-messages.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { MessageStore } from "../../store/messages/contract.js";
import type { SessionWriter } from "../session-writer.js";

export interface MessageInboxDeps {
  readonly messages: Pick<MessageStore, "listMessages">;
  readonly sessions: Pick<Sessions, "get">;
  readonly writer: SessionWriter;
}

/** The messages that wait for a session's agent. A message is marked as read in the transaction that uses it. */
export class MessageInbox {
  readonly #deps: MessageInboxDeps;
  /** The message for which the agent was last to be started. */
  #attemptedSeq = 0;
  /** The message for which the agent did not start: it is not started again for this or older messages. */
  #unavailableAtSeq = 0;

  constructor(deps: MessageInboxDeps) {
    this.#deps = deps;
  }

  /** The oldest message that may start the agent. Null in mode `run`, which ends with its prompts. */
  async nextWakeMessage(): Promise<SessionMessage | null> {
    const { messages, writer } = this.#deps;
    const { sessionId, mode } = writer.row;
    if (mode === "run") return null;
    const filter = { pending: true, deliver: "wake", limit: 1 } as const;
    const [later] = await messages.listMessages(sessionId, { ...filter, after: this.#unavailableAtSeq });
    if (later === undefined) return null;
    this.#attemptedSeq = later.seq;
    const [first = later] =
      this.#unavailableAtSeq === 0 ? [later] : await messages.listMessages(sessionId, filter);
    return first;
  }

  /** The agent did not start: the waiting messages stay until a newer one arrives. */
  agentUnavailable(): void {
    this.#unavailableAtSeq = this.#attemptedSeq;
  }

  /** The agent may start again, also for older messages. */
  resetUnavailable(): void {
    this.#attemptedSeq = 0;
    this.#unavailableAtSeq = 0;
  }

  /** The messages for a turn that starts now. Null: a waiting message may start a turn of its own. */
  async messagesUnlessOneWakes(): Promise<PackedMessages | null> {
    const { messages, writer } = this.#deps;
    const { sessionId, mode } = writer.row;
    const [any] = await messages.listMessages(sessionId, { pending: true, limit: 1 });
    if (any === undefined) return { messages: [], text: "" };
    return mode !== "run" && (await this.nextWakeMessage()) !== null ? null : this.messagesForPrompt();
  }

  async isPending({ sessionId, seq }: SessionMessage): Promise<boolean> {
    const filter = { pending: true, after: seq - 1, before: seq + 1, limit: 1 } as const;
    return (await this.#deps.messages.listMessages(sessionId, filter)).length > 0;
  }

  /** The messages for the next turn, oldest first, as many as fit into a prompt. */
  async messagesForPrompt(): Promise<PackedMessages> {
    const { messages, writer } = this.#deps;
    const { sessionId, mode } = writer.row;
    const filter = mode === "run" ? {} : ({ deliver: "next-turn" } as const);
    const limit = defaults.inboxMessages;
    const waiting = await messages.listMessages(sessionId, { pending: true, ...filter, limit });
    // Messages that a failed turn has read may have been too long together.
    const retried = waiting.some(({ inVain }) => inVain > 0);
    return packMessages(
      waiting,
      this.#deps.sessions,
      retried ? defaults.agentCarriedChars : defaults.acpPromptChars,
    );
  }

  formatMessage(message: SessionMessage): Promise<string> {
    return quoteMessage(message, this.#deps.sessions);
  }
}
