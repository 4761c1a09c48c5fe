import { defaults } from "../../defaults.js";
import type { SessionMessage } from "../../model/message.js";
import type { MessageStore } from "../../store/messages/store.js";
import type { SessionRecord } from "../../model/session.js";
import type { ResponseOf } from "../../api/contract.js";

/**
 * What waits for a session, the oldest first: so many, and no more text than one message may have, but one in any case.
 * `taken`: on their way to its agent, which acknowledges them itself.
 */
export async function readSessionInbox(
  session: SessionRecord,
  records: Pick<MessageStore, "listMessages">,
  limit: number,
  taken: ReadonlySet<string> = new Set(),
): Promise<ResponseOf<"sessionInbox">> {
  const wanted = { pending: true, limit: limit + taken.size + 1 } as const;
  const waiting = (await records.listMessages(session.id, wanted)).filter(({ id }) => !taken.has(id));
  const messages: SessionMessage[] = [];
  let chars = 0;
  for (const message of waiting.slice(0, limit)) {
    chars += message.text.length;
    if (messages.length > 0 && chars > defaults.messageChars) break;
    messages.push(message);
  }
  return { session, messages, more: waiting.length > messages.length };
}
