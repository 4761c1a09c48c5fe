import { type Insertable, type RawBuilder, sql, type UpdateObject } from "kysely";
import { type RunRow, runTable, type Schema } from "../schema.js";
import { changedFields } from "./apply-change.js";
import type { RunChange } from "./contract.js";

/** The values that one change writes. `at` and `started`: times for computed columns. */
export function changeValues(
  change: RunChange,
): Partial<Insertable<RunRow>> & { readonly at: number; readonly started: number | null } {
  return {
    ...runTable.toColumns(changedFields(change)),
    updated_at: Date.now(),
    at: "at" in change ? change.at : 0,
    started: change.to === "exited" ? (change.startedAt ?? null) : null,
  };
}

/**
 * The columns that are computed from the row; `applyRunChange` does the same to a record. Only rows that have not exited
 * are updated, so each expression must be right for `starting`, `running` and `exiting` only.
 */
export function computedColumns(
  to: RunChange["to"],
  at: RawBuilder<number>,
  started: RawBuilder<number | null>,
): UpdateObject<Schema, "runs"> {
  if (to === "running")
    return {
      // The start may be reported after the stop; then the state stays.
      state: sql`case when state = 'starting' then 'running' else state end`,
      // Reported twice (after a reattach), the first time is the start.
      started_at: sql`coalesce(started_at, ${at})`,
    };
  if (to === "exiting") return { state: "exiting" };
  if (to !== "exited") return {};
  // The wall clock may have been set back: an end before the start is never recorded.
  const from = sql<number>`coalesce(started_at, ${started}, created_at)`;
  return {
    started_at: sql<number | null>`coalesce(started_at, ${started})`,
    ended_at: sql<number>`case when ${at} < ${from} then ${from} else ${at} end`,
  };
}
