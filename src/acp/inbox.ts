import { defaults } from "../defaults.js";
import { carry, framed, type Carried } from "../sessions/carried.js";
import type { Sessions } from "../sessions/sessions.js";
import type { SessionMessage } from "../store/message-record.js";
import type { MessageStore } from "../store/message-store.js";
import type { KeptSession } from "./kept-session.js";

export interface InboxParts {
  readonly messages: Pick<MessageStore, "listMessages">;
  readonly sessions: Pick<Sessions, "get">;
  readonly kept: KeptSession;
}

/** Messages that wait for a session's agent. Whoever takes one says so in the same transaction as what comes of it. */
export class Inbox {
  readonly #parts: InboxParts;
  /** The place of the message that its agent is woken for. */
  #tried = 0;
  /** Its agent did not come up for that one: it is not started again and again for the same messages. */
  #vainAt = 0;

  constructor(parts: InboxParts) {
    this.#parts = parts;
  }

  /** The oldest that may wake its agent. A session that is one run is not woken: it ends with its prompts. */
  async next(): Promise<SessionMessage | null> {
    const { messages, kept } = this.#parts;
    const { sessionId, mode } = kept.row;
    if (mode === "run") return null;
    const which = { pending: true, deliver: "wake", limit: 1 } as const;
    const [later] = await messages.listMessages(sessionId, { ...which, after: this.#vainAt });
    if (later === undefined) return null;
    this.#tried = later.seq;
    const [first = later] = this.#vainAt === 0 ? [later] : await messages.listMessages(sessionId, which);
    return first;
  }

  /** The agent did not come up: what waits goes on waiting, until something is said after it. */
  inVain(): void {
    this.#vainAt = this.#tried;
  }

  /** It may come up now, also for those. */
  again(): void {
    this.#tried = 0;
    this.#vainAt = 0;
  }

  /** Whether it waits still. */
  async has({ sessionId, seq }: SessionMessage): Promise<boolean> {
    const which = { pending: true, after: seq - 1, before: seq + 1, limit: 1 } as const;
    return (await this.#parts.messages.listMessages(sessionId, which)).length > 0;
  }

  /** What waits for the next turn: as much of it as a prompt may have, the oldest first. */
  async carried(): Promise<Carried> {
    const { messages, kept } = this.#parts;
    const { sessionId, mode } = kept.row;
    const which = mode === "run" ? {} : ({ deliver: "next-turn" } as const);
    const limit = defaults.inboxMessages;
    const waiting = await messages.listMessages(sessionId, { pending: true, ...which, limit });
    // What was told in vain may have been too much to be told at once.
    const again = waiting.some(({ inVain }) => inVain > 0);
    return carry(waiting, this.#parts.sessions, again ? defaults.agentCarriedChars : defaults.acpPromptChars);
  }

  frame(message: SessionMessage): Promise<string> {
    return framed(message, this.#parts.sessions);
  }
}
