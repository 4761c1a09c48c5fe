import { type Kysely, sql } from "kysely";
import type { SessionMessage } from "../../model/session-message.js";
import { messageTable, type Schema } from "../schema.js";
import { equals, type Reader } from "../sql/engine.js";
import type { MessageCount, MessageFilter, MessageReads, UnansweredFilter } from "./contract.js";

// Literals, not parameters, so that the partial index is used.

/** The message waits for a turn. */
export const isWaiting = sql<boolean>`delivered_at is null and turn_id is null`;

/** The message waits, or a turn has taken it. */
export const isUndelivered = sql<boolean>`delivered_at is null`;

export const isNotice = sql<boolean>`role = 'system' and deliver = 'next-turn'`;

/** The message will not be delivered any more. */
export const isSettled = sql<boolean>`(delivered_at is not null or (turn_id is not null and not (${isNotice})))`;

export function messageQueries(reader: Reader): MessageReads {
  const none = { total: 0, pending: 0, undelivered: 0, lastAt: null };
  return {
    listMessages: (sessionId, filter) => reader.read((db) => listMessages(db, sessionId, filter), []),
    countMessages: (sessionId) => reader.read((db) => countMessages(db, sessionId), none),
    listUnansweredMessages: (of, limit) => reader.read((db) => listUnansweredMessages(db, of, limit), []),
  };
}

async function listMessages(
  db: Kysely<Schema>,
  sessionId: string,
  { pending, deliver, after, before, runId, cause, limit }: MessageFilter,
): Promise<readonly SessionMessage[]> {
  const oldestFirst = pending === true || after !== undefined;
  let query = db
    .selectFrom("session_messages")
    .selectAll()
    .where(equals("session_messages", { session_id: sessionId, deliver, run_id: runId, cause }))
    .orderBy("seq", oldestFirst ? "asc" : "desc")
    .limit(limit);
  if (pending === true) query = query.where(isWaiting);
  if (after !== undefined) query = query.where("seq", ">", after);
  if (before !== undefined) query = query.where("seq", "<", before);
  const messages = await messageTable.list(query);
  return oldestFirst ? messages : messages.toReversed();
}

async function countMessages(db: Kysely<Schema>, sessionId: string): Promise<MessageCount> {
  const { total, delivered, lastAt } = await db
    .selectFrom("session_messages")
    .select(({ fn }) => [
      fn.countAll<number>().as("total"),
      fn.count<number>("delivered_at").as("delivered"),
      fn.max<number | null>("at").as("lastAt"),
    ])
    .where("session_id", "=", sessionId)
    .executeTakeFirstOrThrow();
  const { undelivered } = await db
    .selectFrom("session_messages")
    .innerJoin("acp_turns", "acp_turns.turn_id", "session_messages.turn_id")
    .select(({ fn }) => fn.countAll<number>().as("undelivered"))
    .where("session_messages.session_id", "=", sessionId)
    .where("session_messages.delivered_at", "is", null)
    .where("acp_turns.state", "=", "ended")
    .executeTakeFirstOrThrow();
  return { total, pending: total - delivered - undelivered, undelivered, lastAt };
}

async function listUnansweredMessages(
  db: Kysely<Schema>,
  of: UnansweredFilter,
  limit: number,
): Promise<readonly SessionMessage[]> {
  const [column, value] =
    "sessionId" in of
      ? (["asked.session_id", of.sessionId] as const)
      : (["sessions.gateway_instance_id", of.gatewayInstanceId] as const);
  const query = db
    .selectFrom("session_messages as asked")
    .innerJoin("sessions", "sessions.id", "asked.session_id")
    .selectAll("asked")
    .where("asked.run_id", "is not", null)
    .where("asked.role", "=", "user")
    .where(column, "=", value)
    .where("sessions.closed_at", "is", null)
    .where(sql<boolean>`not exists (
      select 1 from session_messages as answer where answer.run_id = asked.run_id and answer.role <> 'user'
    )`)
    .orderBy("asked.at")
    .limit(limit);
  return messageTable.list(query);
}
