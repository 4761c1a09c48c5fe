import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { OutboxStatus } from "../../model/outbox.js";
import type { SqlDialect } from "../sql/engine.js";

/** A literal, not a parameter, so that the partial indexes are used. */
export function hasStatus(status: OutboxStatus): RawBuilder<boolean> {
  return sql<boolean>`status = ${sql.lit(status)}`;
}

export const isPending = hasStatus("pending");

/** No delay or lease is this long: a time beyond it is from the clock of another boot, and counts as past. */
export const HORIZON_MS = 3_600_000;

/** The subquery reads the clock once, not for every row. */
export function isPast(dialect: SqlDialect, column: "due_at" | "lease_until"): RawBuilder<boolean> {
  const [at, now] = [sql.ref(column), dialect.now()];
  return sql<boolean>`(${at} <= (select ${now}) or ${at} > (select ${now}) + ${HORIZON_MS})`;
}

export function nowPlus(dialect: SqlDialect, ms: number): RawBuilder<number> {
  return sql<number>`${dialect.now()} + ${Math.ceil(ms)}`;
}

/**
 * A message about a change that is obsolete: the task has ended, its policy excludes changes, or there is a newer message
 * for the same target. Compared by the number in the key, because the wall clock may have been set back.
 */
export const isSuperseded = sql<boolean>`(kind = 'state' and (exists (
    select 1 from tasks where tasks.task_id = task_outbox.task_id
      and (tasks.ended_at is not null or tasks.policy <> 'state_changes')
  ) or exists (
    select 1 from task_outbox as newer
    where newer.task_id = task_outbox.task_id and newer.kind = 'state' and newer.target_key = task_outbox.target_key
      and (length(newer.entry_key), newer.entry_key) > (length(task_outbox.entry_key), task_outbox.entry_key)
  )))`;
