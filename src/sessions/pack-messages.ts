import type { SessionRecord } from "../model/session.js";
import type { SessionMessage } from "../model/session-message.js";

/** Inbox messages as text before a prompt. */
export interface PackedMessages {
  readonly messages: readonly string[];
  readonly text: string;
}

interface SenderLookup {
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
