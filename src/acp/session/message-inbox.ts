import { defaults } from "../../defaults.js";
import { packMessages, quoteMessage, type PackedMessages } from "../../sessions/format-messages.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { SessionMessage } from "../../model/session.js";
import type { MessageStore } from "../../store/messages/store.js";
import type { SessionWriter } from "../session-writer.js";

export interface MessageInboxDeps {
  readonly messages: Pick<MessageStore, "listMessages">;
  readonly sessions: Pick<Sessions, "get">;
  readonly writer: SessionWriter;
}

/** Messages that wait for a session's agent. Whoever takes one says so in the same transaction as what comes of it. */
export class MessageInbox {
  readonly #deps: MessageInboxDeps;
  /** The place of the message that its agent is woken for. */
  #attemptedSeq = 0;
  /** Its agent did not come up for that one: it is not started again and again for the same messages. */
  #unavailableAtSeq = 0;

  constructor(deps: MessageInboxDeps) {
    this.#deps = deps;
  }

  /** The oldest that may wake its agent. A session that is one run is not woken: it ends with its prompts. */
  async nextWakeMessage(): Promise<SessionMessage | null> {
    const { messages, writer } = this.#deps;
    const { sessionId, mode } = writer.row;
    if (mode === "run") return null;
    const which = { pending: true, deliver: "wake", limit: 1 } as const;
    const [later] = await messages.listMessages(sessionId, { ...which, after: this.#unavailableAtSeq });
    if (later === undefined) return null;
    this.#attemptedSeq = later.seq;
    const [first = later] =
      this.#unavailableAtSeq === 0 ? [later] : await messages.listMessages(sessionId, which);
    return first;
  }

  /** The agent did not come up: what waits goes on waiting, until something is said after it. */
  agentUnavailable(): void {
    this.#unavailableAtSeq = this.#attemptedSeq;
  }

  /** It may come up now, also for those. */
  resetUnavailable(): void {
    this.#attemptedSeq = 0;
    this.#unavailableAtSeq = 0;
  }

  /** Whether it waits still. */
  async isPending({ sessionId, seq }: SessionMessage): Promise<boolean> {
    const which = { pending: true, after: seq - 1, before: seq + 1, limit: 1 } as const;
    return (await this.#deps.messages.listMessages(sessionId, which)).length > 0;
  }

  /** What waits for the next turn: as much of it as a prompt may have, the oldest first. */
  async messagesForPrompt(): Promise<PackedMessages> {
    const { messages, writer } = this.#deps;
    const { sessionId, mode } = writer.row;
    const which = mode === "run" ? {} : ({ deliver: "next-turn" } as const);
    const limit = defaults.inboxMessages;
    const waiting = await messages.listMessages(sessionId, { pending: true, ...which, limit });
    // What was told in vain may have been too much to be told at once.
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
