import type { Kysely } from "kysely";
import { toEventRow } from "../event-row.js";
import type { NewRunEvent } from "../run-event.js";
import type { Schema } from "../schema.js";
import { countOf, rowsOf, type Steps } from "./steps.js";

/** Rows deleted at a time: few enough that the unlucky write is not noticed. */
const PRUNED_AT_ONCE = 100;

/** A statement has room for 32,766 values; fewer shapes of it are kept prepared this way, too. */
const INSERTED_AT_ONCE = 100;

/** Within a transaction: insert, and now and then forget the oldest, so that never more than `kept` are committed. */
export function* appendEvents(db: Kysely<Schema>, events: readonly NewRunEvent[], kept: number): Steps<void> {
  if (events.length === 0) return;
  let last = 0;
  for (let at = 0; at < events.length; at += INSERTED_AT_ONCE) {
    const rows = events.slice(at, at + INSERTED_AT_ONCE).map(toEventRow);
    const inserted = yield* rowsOf(db.insertInto("run_events").values(rows).returning("seq"));
    last = inserted.reduce((newest, { seq }) => Math.max(newest, seq), last);
  }
  const step = Math.max(1, Math.min(PRUNED_AT_ONCE, Math.floor(kept / 100)));
  // Counted by sequence number, not by process: many short-lived supervisors share one table.
  const due = Math.floor(last / step) > Math.floor((last - events.length) / step);
  if (due) yield* countOf(db.deleteFrom("run_events").where("seq", "<=", last - kept + step - 1));
}
