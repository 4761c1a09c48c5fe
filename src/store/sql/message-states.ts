import { sql } from "kysely";

// Literals, not parameters: only so can the partial index serve.

/** For a turn. */
export const isWaiting = sql<boolean>`delivered_at is null and turn_id is null`;

/** For a turn, or with one. */
export const isUndelivered = sql<boolean>`delivered_at is null`;

export const isNotice = sql<boolean>`role = 'system' and deliver = 'next-turn'`;

/** Nobody will be told it any more. */
export const isSettled = sql<boolean>`(delivered_at is not null or (turn_id is not null and not (${isNotice})))`;
