import type { NewMessage, SessionMessage } from "../../model/message.js";
import type { HistoryLimits, MessageCount, MessageFilter, MessageStore, UnansweredFilter } from "./store.js";
import { appendMessage } from "../sql/append-message.js";
import type { SqlEngine } from "../sql/engine.js";
import { isSettled, isWaiting } from "../sql/message-states.js";
import * as read from "./queries.js";
import { SqlSessionStore } from "../sessions/writes.js";
import { countChanged, type Steps } from "../sql/steps.js";

export class SqlMessageStore extends SqlSessionStore implements MessageStore {
  readonly #engine: SqlEngine;

  constructor(engine: SqlEngine) {
    super(engine);
    this.#engine = engine;
  }

  appendMessage(message: NewMessage, bounds: HistoryLimits): Promise<SessionMessage | "closed" | "full"> {
    return this.#engine.transact(() => appendMessage(this.#engine.db, message, bounds));
  }

  listMessages(sessionId: string, filter: MessageFilter): Promise<readonly SessionMessage[]> {
    return read.listMessages(this.#engine.db, sessionId, filter);
  }

  countMessages(sessionId: string): Promise<MessageCount> {
    return read.countMessages(this.#engine.db, sessionId);
  }

  deliverMessages(sessionId: string, ids: readonly string[], at: number): Promise<readonly string[]> {
    return this.#engine.transact(() => this.#deliver(sessionId, ids, at));
  }

  listUnansweredMessages(of: UnansweredFilter, limit: number): Promise<readonly SessionMessage[]> {
    return read.listUnansweredMessages(this.#engine.db, of, limit);
  }

  deleteSettledMessages(saidBefore: number): Promise<number> {
    const old = this.#engine.db.deleteFrom("session_messages").where("at", "<", saidBefore);
    return this.#engine.perform(() => countChanged(old.where(isSettled)));
  }

  *#deliver(sessionId: string, ids: readonly string[], at: number): Steps<readonly string[]> {
    const delivered: string[] = [];
    for (const id of ids) {
      const deliver = this.#engine.db
        .updateTable("session_messages")
        .set({ delivered_at: at })
        .where("session_id", "=", sessionId)
        .where("id", "=", id)
        .where(isWaiting);
      if ((yield* countChanged(deliver)) > 0) delivered.push(id);
    }
    return delivered;
  }
}
