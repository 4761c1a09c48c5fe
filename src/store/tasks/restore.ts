import type { Kysely } from "kysely";
import { type OutboxEntry, outboxStatusRank, targetKey } from "../../model/outbox.js";
import type { NewTaskEvent, TaskEvent } from "../../model/task.js";
import { nowPlus } from "../outbox/claim.js";
import { outboxTable, type Schema, taskTable } from "../schema.js";
import { countChanged, fetchRows, type SqlDialect, type SqlEngine, type Steps } from "../sql/engine.js";
import type { RestoredTask, TaskRestoration } from "./contract.js";
import { deriveDelivery } from "./delivery.js";

/** Within a transaction. */
export function* restoreTask(
  engine: SqlEngine,
  copy: RestoredTask,
  event: NewTaskEvent,
): Steps<TaskRestoration> {
  const { db, dialect } = engine;
  const { taskId, task } = copy;
  const [known] = yield* fetchRows(
    db
      .selectFrom("tasks")
      .select(["ended_at", "version", "last_seq"])
      .where("task_id", "=", taskId)
      .modifyEnd(dialect.lockShared),
  );
  if (known === undefined && task === null) return "absent";
  // An end is never undone. The version alone does not decide, because a restore counts as a change.
  const behind =
    task !== null &&
    (known === undefined ||
      (known.ended_at === null && (task.endedAt !== null || known.version < task.version)));
  if (behind && task.key !== null) {
    const other = db.selectFrom("tasks").select("task_id").where("key", "=", task.key);
    if ((yield* fetchRows(other.where("task_id", "<>", taskId))).length > 0) return "key-taken";
  }
  if (behind) {
    const seq = Math.max(task.seq, known?.last_seq ?? 0);
    const row = taskTable.toColumns({ ...task, seq, version: Math.max(task.version, known?.version ?? 0) });
    yield* countChanged(
      db
        .insertInto("tasks")
        .values(row)
        .onConflict((conflict) => conflict.column("task_id").doUpdateSet(row)),
    );
    const last = yield* restoreEvents(db, taskId, copy.events);
    const renumber = db.updateTable("tasks").set({ last_seq: last }).where("task_id", "=", taskId);
    yield* countChanged(renumber.where("last_seq", "<", last));
  }
  let messages = 0;
  for (const entry of copy.entries)
    if (yield* restoreEntry(db, dialect, entry, copy, behind || known === undefined)) messages += 1;
  if (!behind && messages === 0) return "same";
  const [changed] = yield* fetchRows(
    db
      .updateTable("tasks")
      .set((column) => ({ last_seq: column("last_seq", "+", 1), version: column("version", "+", 1) }))
      .where("task_id", "=", taskId)
      .returning("last_seq"),
  );
  yield* restoreEvents(db, taskId, [{ ...event, taskId, seq: changed?.last_seq ?? 1 }]);
  yield* deriveDelivery(engine, taskId);
  return "restored";
}

/** Events written under the same number since stay; the restored event then takes the next free number. Returns the highest number. */
function* restoreEvents(db: Kysely<Schema>, taskId: string, events: readonly TaskEvent[]): Steps<number> {
  const known = yield* fetchRows(
    db.selectFrom("task_events").select(["seq", "at", "type"]).where("task_id", "=", taskId),
  );
  const taken = new Set(known.map(({ seq }) => seq));
  let last = Math.max(0, ...taken, ...events.map(({ seq }) => seq));
  for (const { seq, at, type, data } of events) {
    if (known.some((event) => event.type === type && event.at === at)) continue;
    const free = taken.has(seq) ? (last += 1) : seq;
    taken.add(free);
    yield* countChanged(
      db
        .insertInto("task_events")
        .values({ task_id: taskId, seq: free, at, type, data: JSON.stringify(data) })
        .onConflict((conflict) => conflict.columns(["task_id", "seq"]).doNothing()),
    );
  }
  return last;
}

function* restoreEntry(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  entry: OutboxEntry,
  { leaseMs, waitMs }: Pick<RestoredTask, "leaseMs" | "waitMs">,
  whole: boolean,
): Steps<boolean> {
  const [known] = yield* fetchRows(
    db.selectFrom("task_outbox").select(["status", "attempts"]).where("entry_key", "=", entry.key),
  );
  // A message about a state change that the store does not have was replaced, or is too old to be kept.
  if (known === undefined && entry.notification.kind === "state" && !whole) return false;
  if (
    known !== undefined &&
    outboxStatusRank(known.status) >= outboxStatusRank(entry.status) &&
    known.attempts >= entry.attempts
  )
    return false;
  // The message in the session may be lost, too; its id keeps it from appearing twice.
  const status = entry.status === "session_queued" ? "pending" : entry.status;
  const sending = status === "pending" && entry.leaseOwner !== null;
  const row = {
    ...outboxTable.toColumns({
      ...entry,
      status,
      unheard: Math.min(entry.unheard, entry.attempts),
      spentMs: Math.ceil(entry.spentMs),
      leaseOwner: sending ? entry.leaseOwner : null,
      settledAt: status === "pending" ? null : entry.settledAt,
    }),
    target_key: targetKey(entry.target),
    kind: entry.notification.kind,
    due_at: nowPlus(dialect, waitMs),
    lease_until: sending ? nowPlus(dialect, leaseMs) : null,
  };
  yield* countChanged(
    db
      .insertInto("task_outbox")
      .values(row)
      .onConflict((conflict) => conflict.column("entry_key").doUpdateSet(row)),
  );
  return true;
}
