import { type Kysely, sql } from "kysely";
import type { NewMessage, SessionMessage } from "../../model/session-message.js";
import { messageTable, type Schema } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { isSettled, isWaiting } from "./queries.js";
import type { HistoryLimits, MessageWrites } from "./contract.js";

/** A literal, not a parameter, so that the partial index is used. */
const open = sql<boolean>`closed_at is null`;

/** Old messages are deleted once in so many messages. */
const PRUNE_EVERY = 16;

export function messageWrites(engine: SqlEngine): MessageWrites {
  const { db } = engine;
  return {
    appendMessage: (message, limits) => engine.transact(() => appendMessage(db, message, limits)),
    deliverMessages: (sessionId, ids, at) => engine.transact(() => deliverMessages(db, sessionId, ids, at)),
    deleteSettledMessages(writtenBefore) {
      const old = db.deleteFrom("session_messages").where("at", "<", writtenBefore).where(isSettled);
      return engine.perform(() => countChanged(old));
    },
  };
}

function* appendMessage(
  db: Kysely<Schema>,
  message: NewMessage,
  limits: HistoryLimits,
): Steps<SessionMessage | "closed" | "full"> {
  const { sessionId, cause } = message;
  const seq = yield* takeSessionPlace(db, sessionId);
  if (seq === null) return "closed";
  const of = db.selectFrom("session_messages").where("session_id", "=", sessionId);
  if (cause !== null) {
    const [before] = yield* fetchRows(of.selectAll().where("cause", "=", cause));
    if (before !== undefined) return yield* returnPlace(db, sessionId, messageTable.toRecord(before));
  }
  if (message.deliveredAt === null) {
    // Notices and other messages have separate limits, so that notices cannot block messages that wake the agent.
    const alike = of.where("role", message.role === "system" ? "=" : "<>", "system");
    const others = yield* fetchRows(alike.select("id").where(isWaiting).limit(limits.pending));
    if (others.length === limits.pending) return yield* returnPlace(db, sessionId, "full" as const);
  }
  const bytes = Buffer.byteLength(message.text);
  const row = { ...messageTable.toColumns({ ...message, seq }), bytes };
  yield* countChanged(db.insertInto("session_messages").values(row));
  if (seq % PRUNE_EVERY === 0 || bytes > limits.bytes / PRUNE_EVERY)
    yield* pruneMessages(db, sessionId, seq, limits);
  return { ...message, seq };
}

/** Takes the next place in a session. The updated row orders concurrent writers. Null: the session is not open. */
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

/** Gives the place back if no message is written. */
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
  const prune = sql`
    delete from session_messages
    where session_id = ${sessionId} and ${isSettled} and seq < ${last} and (
      seq <= ${last - messages} or seq <= (
        select max(seq) from (
          select seq, sum(bytes) over (order by seq desc) as total from session_messages where session_id = ${sessionId}
        ) as newest where total > ${bytes}
      )
    )
  `;
  yield* countChanged({ compile: () => prune.compile(db) });
}

function* deliverMessages(
  db: Kysely<Schema>,
  sessionId: string,
  ids: readonly string[],
  at: number,
): Steps<readonly string[]> {
  const delivered: string[] = [];
  for (const id of ids) {
    const deliver = db
      .updateTable("session_messages")
      .set({ delivered_at: at })
      .where("session_id", "=", sessionId)
      .where("id", "=", id)
      .where(isWaiting);
    if (yield* hasChanged(deliver)) delivered.push(id);
  }
  return delivered;
}
