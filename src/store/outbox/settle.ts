import { type Compilable, type Kysely, sql } from "kysely";
import { defaults } from "../../defaults.js";
import type { TaskDelivery } from "../../model/task.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { Schema } from "../schema.js";
import { countChanged, fetchRows, type SqlDialect, type Steps } from "../sql/engine.js";
import type { OutboxResult } from "../tasks/store.js";
import { isPast, isPending, isSuperseded, nowPlus } from "./conditions.js";

/** Of the attempt that was claimed, as long as nobody else has begun another. */
export function settleOutboxEntry(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  { key, leaseOwner, attempts }: OutboxEntry,
  result: OutboxResult,
): Compilable {
  const settle = db
    .updateTable("task_outbox")
    .set({ lease_owner: null, lease_until: null })
    .where("entry_key", "=", key)
    .where("lease_owner", "=", leaseOwner)
    .where("attempts", "=", attempts)
    .where(isPending);
  const { status } = result;
  switch (status) {
    case "pending":
      return settle.set({
        ...unknownResultColumns(result),
        error: result.error,
        spent_ms: Math.ceil(result.spentMs),
        due_at: nowPlus(dialect, result.inMs),
      });
    case "failed":
      return settle.set({
        ...unknownResultColumns(result),
        status,
        error: result.error,
        spent_ms: Math.ceil(result.spentMs),
        settled_at: result.at,
      });
    case "delivered":
      return settle.set({ status, error: null, receipt: result.receipt, settled_at: result.at });
    case "session_queued":
    case "parent_missing":
      return settle.set({ status, error: null, settled_at: result.at });
  }
}

/** That it may have arrived is never forgotten; only those that nobody came back from are counted. */
function unknownResultColumns({ unheard = false }: { readonly unheard?: boolean }) {
  return unheard ? { unheard: sql<number>`case when unheard = 0 then 1 else unheard end` } : {};
}

export function acknowledgeOutboxEntry(
  db: Kysely<Schema>,
  key: string,
  at: number,
  status: "delivered" | "parent_missing",
): Compilable {
  return db
    .updateTable("task_outbox")
    .set({ status, settled_at: at })
    .where("entry_key", "=", key)
    .where("status", "=", "session_queued");
}

export function retryOutboxEntries(db: Kysely<Schema>, dialect: SqlDialect, taskId: string): Compilable {
  return (
    undelivered(db, taskId)
      .where(sql<boolean>`not ${isSuperseded}`)
      .set({ status: "pending", spent_ms: 0, settled_at: null, due_at: dialect.now() })
      // It may have arrived all the same.
      .set({ unheard: sql<number>`case when unheard = 0 then 0 else 1 end` })
  );
}

export function dismissOutboxEntries(db: Kysely<Schema>, taskId: string, at: number): Compilable {
  return undelivered(db, taskId).set({ status: "dismissed", settled_at: at });
}

/** What an operator decides on. */
function undelivered(db: Kysely<Schema>, taskId: string) {
  return db
    .updateTable("task_outbox")
    .where("task_id", "=", taskId)
    .where("status", "in", ["failed", "parent_missing"]);
}

/** Messages that came to nothing, which nobody is sending. */
export function dropSuperseded(db: Kysely<Schema>, dialect: SqlDialect, taskId: string): Compilable {
  return db
    .deleteFrom("task_outbox")
    .where("task_id", "=", taskId)
    .where(isSuperseded)
    .where(isPending)
    .where((is) => is.or([is("lease_until", "is", null), isPast(dialect, "lease_until")]));
}

/** Of those about changes that are settled, all but the newest: work may go on for months. */
export function dropOldStateMessages(db: Kysely<Schema>, taskId: string): Compilable {
  const settled = db
    .selectFrom("task_outbox")
    .select("entry_key")
    .where("task_id", "=", taskId)
    .where("kind", "=", "state")
    .where("status", "<>", "pending");
  const newest = settled.orderBy("created_at", "desc").limit(defaults.taskEventsKept);
  return db.deleteFrom("task_outbox").where("entry_key", "in", settled).where("entry_key", "not in", newest);
}

/** What is worst of the messages about its end; what was dismissed is nobody's concern. */
const WORST_FIRST: readonly TaskDelivery[] = [
  "pending",
  "failed",
  "parent_missing",
  "session_queued",
  "delivered",
];

/** Whoever settles messages of a task does so one after the other: this holds its row. */
export function* lockTask(
  db: Kysely<Schema>,
  taskId: string,
): Steps<{ readonly noticed_at: number | null } | null> {
  const hold = db.updateTable("tasks").set((column) => ({ version: column("version", "+", 0) }));
  const [row] = yield* fetchRows(hold.where("task_id", "=", taskId).returning("noticed_at"));
  return row ?? null;
}

export function* deriveDelivery(db: Kysely<Schema>, taskId: string): Steps<void> {
  const rows = yield* fetchRows(
    db
      .selectFrom("task_outbox")
      .select("status")
      .where("task_id", "=", taskId)
      .where("kind", "=", "terminal"),
  );
  const found = new Set<string>(rows.map(({ status }) => status));
  const delivery = WORST_FIRST.find((each) => found.has(each)) ?? "not_applicable";
  const told = db.updateTable("tasks").set({ delivery }).where("task_id", "=", taskId);
  yield* countChanged(told.where("ended_at", "is not", null).where("delivery", "<>", delivery));
}
