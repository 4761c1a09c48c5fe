import { type Kysely, sql } from "kysely";
import type { NewMessage, SessionMessage } from "../../model/session.js";
import type { Schema } from "../schema.js";
import { SqlSessionStore } from "../sessions/writes.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import * as read from "./queries.js";
import { isSettled, isWaiting, toMessage, toMessageColumns } from "./rows.js";
import type { HistoryLimits, MessageCount, MessageFilter, MessageStore, UnansweredFilter } from "./store.js";

/** A literal, not a parameter: only so can the partial index serve. */
const open = sql<boolean>`closed_at is null`;

/** What is too old to be kept is looked for this often. */
const PRUNE_EVERY = 16;

/** Within a transaction, also one of more than this: what else follows from a message is then said with it or not at all. */
export function* appendMessage(
  db: Kysely<Schema>,
  message: NewMessage,
  bounds: HistoryLimits,
): Steps<SessionMessage | "closed" | "full"> {
  const { sessionId, cause } = message;
  const seq = yield* takeSessionPlace(db, sessionId);
  if (seq === null) return "closed";
  const of = db.selectFrom("session_messages").where("session_id", "=", sessionId);
  if (cause !== null) {
    const [before] = yield* fetchRows(of.selectAll().where("cause", "=", cause));
    if (before !== undefined) return yield* returnPlace(db, sessionId, toMessage(before));
  }
  if (message.deliveredAt === null) {
    // Notices wake nobody: as many as there may be, they are in nobody's way who does.
    const alike = of.where("role", message.role === "system" ? "=" : "<>", "system");
    const others = yield* fetchRows(alike.select("id").where(isWaiting).limit(bounds.pending));
    if (others.length === bounds.pending) return yield* returnPlace(db, sessionId, "full" as const);
  }
  yield* countChanged(db.insertInto("session_messages").values(toMessageColumns(message, seq)));
  if (seq % PRUNE_EVERY === 0 || Buffer.byteLength(message.text) > bounds.bytes / PRUNE_EVERY)
    yield* pruneMessages(db, sessionId, seq, bounds);
  return { ...message, seq };
}

/** Whoever has counted its session up comes first: the others wait, and their places follow. Null: it is not open. */
export function* takeSessionPlace(db: Kysely<Schema>, sessionId: string): Steps<number | null> {
  const [place] = yield* fetchRows(
    db
      .updateTable("sessions")
      .set(({ eb }) => ({ messages: eb("messages", "+", 1) }))
      .where("id", "=", sessionId)
      .where(open)
      .returning("messages"),
  );
  return place?.messages ?? null;
}

/** Nothing was said after all. */
function* returnPlace<Answer>(db: Kysely<Schema>, sessionId: string, answer: Answer): Steps<Answer> {
  const back = db.updateTable("sessions").set(({ eb }) => ({ messages: eb("messages", "-", 1) }));
  yield* countChanged(back.where("id", "=", sessionId));
  return answer;
}

function* pruneMessages(
  db: Kysely<Schema>,
  sessionId: string,
  last: number,
  { bytes, messages }: HistoryLimits,
): Steps<void> {
  const forget = sql`
    delete from session_messages
    where session_id = ${sessionId} and ${isSettled} and seq < ${last} and (
      seq <= ${last - messages} or seq <= (
        select max(seq) from (
          select seq, sum(bytes) over (order by seq desc) as total from session_messages where session_id = ${sessionId}
        ) as newest where total > ${bytes}
      )
    )
  `;
  yield* countChanged({ compile: () => forget.compile(db) });
}

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
