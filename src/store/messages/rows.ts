import { type Insertable, type Selectable, sql } from "kysely";
import type { NewMessage, SessionMessage } from "../../model/session.js";
import type { MessageTable } from "../schema.js";

export function toMessageColumns(message: NewMessage, seq: number): Insertable<MessageTable> {
  return {
    id: message.id,
    session_id: message.sessionId,
    seq,
    role: message.role,
    from_session_id: message.fromSessionId,
    actor: message.actor,
    text: message.text,
    bytes: Buffer.byteLength(message.text),
    run_id: message.runId,
    cause: message.cause,
    at: message.at,
    deliver: message.deliver,
    turn_id: message.turnId,
    in_vain: message.inVain,
    delivered_at: message.deliveredAt,
  };
}

export function toMessage(row: Selectable<MessageTable>): SessionMessage {
  return {
    id: row.id,
    sessionId: row.session_id,
    seq: row.seq,
    role: row.role,
    fromSessionId: row.from_session_id,
    actor: row.actor,
    text: row.text,
    runId: row.run_id,
    cause: row.cause,
    at: row.at,
    deliver: row.deliver,
    turnId: row.turn_id,
    inVain: row.in_vain,
    deliveredAt: row.delivered_at,
  };
}

// Literals, not parameters: only so can the partial index serve.

/** For a turn. */
export const isWaiting = sql<boolean>`delivered_at is null and turn_id is null`;

/** For a turn, or with one. */
export const isUndelivered = sql<boolean>`delivered_at is null`;

export const isNotice = sql<boolean>`role = 'system' and deliver = 'next-turn'`;

/** Nobody will be told it any more. */
export const isSettled = sql<boolean>`(delivered_at is not null or (turn_id is not null and not (${isNotice})))`;
