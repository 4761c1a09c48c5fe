import type { Compilable } from "kysely";
import { defaults } from "../../defaults.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { NewTaskEvent, TaskRecord } from "../../model/task.js";
import { claimOutboxEntries, nextOutboxDelay, releaseOutboxEntries } from "../outbox/claim.js";
import {
  acknowledgeOutboxEntry,
  addOutboxEntries,
  deriveDelivery,
  dismissOutboxEntries,
  dropOldStateMessages,
  dropSuperseded,
  dropUnsentStateMessages,
  lockTask,
  retryOutboxEntries,
  settleOutboxEntry,
} from "../outbox/writes.js";
import { taskEventTable, taskTable } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { restoreTask } from "./restore.js";
import type { NewTask, OutboxResult, TaskChange, TaskWrites } from "./contract.js";

export function taskWrites(engine: SqlEngine): TaskWrites {
  const { db, dialect } = engine;
  const decideAndFlush = async (taskId: string, change: Compilable, event: NewTaskEvent): Promise<number> => {
    const count = await engine.transact(() => decideOnMessages(engine, taskId, change, event));
    if (count > 0) await engine.flush();
    return count;
  };
  return {
    async insertTask(task, events) {
      const answer = await engine.transact(() => insertTask(engine, task, events));
      // Flushed also if the task existed: the flush of its writer may have failed.
      await engine.flush();
      return answer;
    },
    async commitTask(taskId, version, change) {
      const task = await engine.transact(() => commitTask(engine, taskId, version, change));
      if (task !== null && (change.events ?? []).length > 0) await engine.flush();
      return task;
    },
    async restoreTask(copy, event) {
      const restored = await engine.transact(() => restoreTask(db, dialect, copy, event));
      if (restored === "restored") await engine.flush();
      return restored;
    },
    async deleteTasks(taskIds) {
      if (taskIds.length === 0) return 0;
      const deletion = db
        .deleteFrom("tasks")
        .where("task_id", "in", taskIds)
        .where("ended_at", "is not", null)
        .where("delivery", "<>", "pending");
      return engine.perform(() => countChanged(deletion));
    },
    async claimOutbox(claim) {
      const claimed = await engine.transact(() => claimOutboxEntries(db, dialect, claim));
      if (claimed.length > 0) await engine.flush();
      return claimed;
    },
    nextOutboxDelay: (except = []) => engine.perform(() => nextOutboxDelay(db, dialect, except)),
    settleOutbox: (entry, result) => engine.transact(() => settleMessage(engine, entry, result)),
    releaseOutbox: (owner) => engine.perform(() => countChanged(releaseOutboxEntries(db, owner))),
    acknowledgeOutbox(key, taskId, at, as = "delivered") {
      const acknowledge = acknowledgeOutboxEntry(db, key, at, as);
      return engine.transact(() => settleTerminal(engine, taskId, acknowledge));
    },
    retryOutbox: (taskId, event) => decideAndFlush(taskId, retryOutboxEntries(db, dialect, taskId), event),
    dismissOutbox: (taskId, event) =>
      decideAndFlush(taskId, dismissOutboxEntries(db, dialect, taskId, event.at), event),
  };
}

function* insertTask(
  { db }: SqlEngine,
  task: NewTask,
  events: readonly NewTaskEvent[],
): Steps<{ readonly task: TaskRecord; readonly created: boolean }> {
  for (;;) {
    const record: TaskRecord = { ...task, seq: events.length, version: 1 };
    const insert = db.insertInto("tasks").values(taskTable.toColumns(record));
    const once = insert.onConflict((conflict) => conflict.column("key").doNothing());
    if (yield* hasChanged(once)) {
      yield* appendTaskEvents(db, task.taskId, 0, events);
      return { task: record, created: true };
    }
    const [row] = yield* fetchRows(db.selectFrom("tasks").selectAll().where("key", "=", task.key));
    // No row: the task with the key was deleted between the two statements.
    if (row !== undefined) return { task: taskTable.toRecord(row), created: false };
  }
}

/** Updates the task's row first: its lock orders concurrent changes of the task. */
function* commitTask(
  { db, dialect }: SqlEngine,
  taskId: string,
  version: number,
  change: TaskChange,
): Steps<TaskRecord | null> {
  const { set = {}, events = [], notices = [] } = change;
  const [row] = yield* fetchRows(
    db
      .updateTable("tasks")
      .set(taskTable.toColumns(set))
      .set({ version: version + 1 })
      .set((column) => ({ last_seq: column("last_seq", "+", events.length) }))
      .where("task_id", "=", taskId)
      .where("version", "=", version)
      .returningAll(),
  );
  if (row === undefined) return null;
  yield* appendTaskEvents(db, taskId, row.last_seq - events.length, events);
  const ends = set.endedAt !== undefined && set.endedAt !== null;
  const replacesUnsent = ends || notices.length > 0 || set.policy !== undefined;
  const replaced =
    replacesUnsent && row.noticed_at !== null ? yield* fetchRows(dropUnsentStateMessages(db, taskId)) : [];
  yield* addOutboxEntries(db, dialect, taskId, notices, replaced);
  return taskTable.toRecord(row);
}

function* appendTaskEvents(
  db: SqlEngine["db"],
  taskId: string,
  after: number,
  events: readonly NewTaskEvent[],
): Steps<void> {
  if (events.length === 0) return;
  const rows = events.map(({ at, type, data }, index) =>
    taskEventTable.toColumns({ taskId, seq: after + index + 1, at, type, data }),
  );
  yield* countChanged(db.insertInto("task_events").values(rows));
  const old = after + events.length - defaults.taskEventsKept;
  if (old <= 0) return;
  yield* countChanged(
    db
      .deleteFrom("task_events")
      .where("task_id", "=", taskId)
      .where("seq", "<=", old)
      .where("type", "not in", ["created", "started", "ended"]),
  );
}

function* settleMessage(engine: SqlEngine, entry: OutboxEntry, result: OutboxResult): Steps<boolean> {
  const { db, dialect } = engine;
  const { taskId } = entry;
  const settle = settleOutboxEntry(db, dialect, entry, result);
  if (entry.notification.kind === "terminal") return yield* settleTerminal(engine, taskId, settle);
  if (!(yield* hasChanged(settle))) return false;
  yield* countChanged(dropSuperseded(db, dialect, taskId));
  if (result.status !== "pending") yield* countChanged(dropOldStateMessages(db, taskId));
  return true;
}

/** Changes a message about the end of a task, and derives the delivery of the task. */
function* settleTerminal({ db, dialect }: SqlEngine, taskId: string, change: Compilable): Steps<boolean> {
  const task = yield* lockTask(db, taskId);
  if (task === null || !(yield* hasChanged(change))) return false;
  if (task.noticed_at !== null) yield* countChanged(dropSuperseded(db, dialect, taskId));
  yield* deriveDelivery(db, taskId);
  return true;
}

/** Applies an operator's decision on the failed messages of a task, with its event. */
function* decideOnMessages(
  { db }: SqlEngine,
  taskId: string,
  change: Compilable,
  event: NewTaskEvent,
): Steps<number> {
  if ((yield* lockTask(db, taskId)) === null) return 0;
  const count = yield* countChanged(change);
  if (count === 0) return 0;
  const [row] = yield* fetchRows(
    db
      .updateTable("tasks")
      .set((column) => ({ last_seq: column("last_seq", "+", 1), version: column("version", "+", 1) }))
      .where("task_id", "=", taskId)
      .returning("last_seq"),
  );
  yield* appendTaskEvents(db, taskId, (row?.last_seq ?? 1) - 1, [event]);
  yield* deriveDelivery(db, taskId);
  return count;
}
