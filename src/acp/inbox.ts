import { defaults } from "../defaults.js";
import type { Sessions } from "../sessions/sessions.js";
import type { SessionMessage } from "../store/message-record.js";
import type { MessageStore } from "../store/message-store.js";
import type { KeptSession } from "./kept-session.js";

export interface InboxParts {
  readonly messages: Pick<MessageStore, "listMessages">;
  readonly sessions: Pick<Sessions, "get">;
  readonly kept: KeptSession;
}

/** What goes to the agent before the words of a prompt. */
export interface Carried {
  readonly messages: readonly string[];
  readonly text: string;
}

/** Whatever anybody takes for the end of a line. */
const BREAK = /\r\n|[\n\v\f\r\u0085\u2028\u2029]/;

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

  /** What waits for the next turn: as much of it as a prompt may have, the oldest first. */
  async carried(): Promise<Carried> {
    const { messages, kept } = this.#parts;
    const { sessionId, mode } = kept.row;
    const which = mode === "run" ? {} : ({ deliver: "next-turn" } as const);
    const limit = defaults.inboxMessages;
    const waiting = await messages.listMessages(sessionId, { pending: true, ...which, limit });
    const taken: string[] = [];
    let text = "";
    for (const message of waiting) {
      const frame = `${await this.frame(message)}\n\n`;
      if (taken.length > 0 && text.length + frame.length > defaults.acpPromptChars) break;
      taken.push(message.id);
      text += frame;
    }
    return { messages: taken, text };
  }

  /** Says who speaks, in one line, and quotes every other: nothing in it can pass for somebody else's word, or for the prompt. */
  async frame(message: SessionMessage): Promise<string> {
    const heading = (await this.#heading(message)).split(BREAK).join(" ");
    const quoted = message.text.split(BREAK);
    return [`${heading}:`, ...quoted.map((line) => `> ${line}`)].join("\n");
  }

  async #heading({ role, fromSessionId, actor }: SessionMessage): Promise<string> {
    if (role === "system") return "Notice from Holdfast, not from a person";
    if (fromSessionId === null) return `Message from ${actor === "operator" ? "the operator" : actor}`;
    const sender = await this.#parts.sessions.get(fromSessionId);
    if (sender === null) return `Message from session ${fromSessionId}`;
    return `Message from session ${sender.key} (${sender.agentId === null ? "no agent" : `agent ${sender.agentId}`})`;
  }
}
