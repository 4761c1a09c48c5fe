import { type Compilable, sql } from "kysely";
import { defaults } from "../../defaults.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { NewTaskEvent, TaskPatch, TaskRecord } from "../../model/task.js";
import { claimOutboxEntries, nextOutboxDelay, releaseOutboxEntries } from "../outbox/claim.js";
import {
  acknowledgeOutboxEntry,
  addOutboxEntries,
  dismissOutboxEntries,
  dropOldStateMessages,
  dropSuperseded,
  dropUnsentStateMessages,
  retryOutboxEntries,
  settleOutboxEntry,
} from "../outbox/writes.js";
import { taskEventTable, taskTable } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { shapeOf } from "../sql/statement-cache.js";
import { deriveDelivery, endsOrReplaces, lockTask } from "./delivery.js";
import { restoreTask } from "./restore.js";
import {
  changeTasksTogether,
  insertTasksTogether,
  type NewTaskCall,
  newTaskRecord,
  type SettleCall,
  settleTogether,
  type TaskChangeCall,
} from "./grouped-writes.js";
import type { OutboxResult, TaskWrites } from "./contract.js";

export function taskWrites(engine: SqlEngine): TaskWrites {
  const { db, dialect } = engine;
  const decideAndFlush = async (taskId: string, change: Compilable, event: NewTaskEvent): Promise<number> => {
    const count = await engine.transact(() => decideOnMessages(engine, taskId, change, event));
    if (count > 0) await engine.flush();
    return count;
  };
  const insert = engine.group<NewTaskCall, InsertedTask>({
    // Durable also if the task existed: the sync of its writer may have failed.
    alone: (call) => engine.transactDurably(() => insertTask(engine, call)),
    async together(calls) {
      const created = await insertTasksTogether(engine, calls);
      return calls.map((call) =>
        created.has(call.task.taskId) ? { task: newTaskRecord(call), created: true } : undefined,
      );
    },
    shapeOf: () => "",
    recordOf: ({ task }) => task.taskId,
  });
  const commit = engine.group<TaskChangeCall, TaskRecord | null>({
    alone(call) {
      const steps = (): Steps<TaskRecord | null> => commitTask(engine, call);
      const durable = (call.change.events ?? []).length > 0;
      return durable ? engine.transactDurably(steps) : engine.transact(steps);
    },
    async together(calls) {
      const changed = await changeTasksTogether(engine, calls);
      return calls.map(({ taskId }) => changed.get(taskId));
    },
    shapeOf: ({ change }) => Object.keys(change.set ?? {}).join(" "),
    recordOf: ({ taskId }) => taskId,
  });
  const settle = engine.group<SettleCall, boolean>({
    alone: ({ entry, result }) => engine.transact(() => settleMessage(engine, entry, result)),
    async together(calls) {
      const settled = await settleTogether(engine, calls);
      return calls.map(({ entry }) => (settled.has(entry.key) ? true : undefined));
    },
    shapeOf: ({ entry, result }) => (entry.notification.kind === "terminal" ? result.status : null),
    recordOf: ({ entry }) => entry.taskId,
  });
  return {
    insertTask: (task, events) => insert({ task, events }),
    commitTask: (taskId, version, change) => commit({ taskId, version, change }),
    async restoreTask(copy, event) {
      const restored = await engine.transact(() => restoreTask(engine, copy, event));
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
    settleOutbox: (entry, result) => settle({ entry, result }),
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

interface InsertedTask {
  readonly task: TaskRecord;
  readonly created: boolean;
}

function* insertTask(engine: SqlEngine, call: NewTaskCall): Steps<InsertedTask> {
  const { db, statements } = engine;
  const { task, events } = call;
  const record = newTaskRecord(call);
  const columns = taskTable.toColumns(record);
  const insert = statements.bind(shapeOf("insert a task", columns), columns, (places) =>
    db
      .insertInto("tasks")
      .values(places)
      .onConflict((conflict) => conflict.column("key").doNothing()),
  );
  for (;;) {
    if (yield* hasChanged(insert)) {
      yield* appendTaskEvents(engine, task.taskId, 0, events);
      return { task: record, created: true };
    }
    const [row] = yield* fetchRows(db.selectFrom("tasks").selectAll().where("key", "=", task.key));
    // No row: the task with the key was deleted between the two statements.
    if (row !== undefined) return { task: taskTable.toRecord(row), created: false };
  }
}

/** Updates the task's row first: its lock orders concurrent changes of the task. */
function* commitTask(
  engine: SqlEngine,
  { taskId, version, change }: TaskChangeCall,
): Steps<TaskRecord | null> {
  const { db } = engine;
  const { set = {}, events = [], notices = [] } = change;
  const [row] = yield* fetchRows(updateTask(engine, { taskId, version, set, events: events.length }));
  if (row === undefined) return null;
  yield* appendTaskEvents(engine, taskId, row.last_seq - events.length, events);
  const replaced =
    endsOrReplaces(change) && row.noticed_at !== null
      ? yield* fetchRows(dropUnsentStateMessages(db, taskId))
      : [];
  yield* addOutboxEntries(engine, taskId, notices, replaced);
  return taskTable.toRecord(row);
}

interface TaskUpdate {
  readonly taskId: string;
  readonly version: number;
  readonly set: TaskPatch;
  /** Number of added events. */
  readonly events: number;
}

function updateTask({ db, statements }: SqlEngine, { taskId, version, set, events }: TaskUpdate) {
  const values = { ...taskTable.toColumns(set), of_task: taskId, of_version: version, events };
  return statements.bind(shapeOf("change a task", values), values, (given) => {
    const { of_task, of_version, events: added, ...places } = given;
    return db
      .updateTable("tasks")
      .set({ ...places, version: sql<number>`version + 1`, last_seq: sql<number>`last_seq + ${added}` })
      .where("task_id", "=", of_task)
      .where("version", "=", of_version)
      .returning(taskTable.columns);
  });
}

function* appendTaskEvents(
  { db, statements }: SqlEngine,
  taskId: string,
  after: number,
  events: readonly NewTaskEvent[],
): Steps<void> {
  if (events.length === 0) return;
  for (const [index, { at, type, data }] of events.entries()) {
    const row = taskEventTable.toColumns({ taskId, seq: after + index + 1, at, type, data });
    yield* countChanged(
      statements.bind("insert a task event", row, (places) => db.insertInto("task_events").values(places)),
    );
  }
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
  const settle = settleOutboxEntry(engine, entry, result);
  if (entry.notification.kind === "terminal") return yield* settleTerminal(engine, taskId, settle);
  if (!(yield* hasChanged(settle))) return false;
  yield* countChanged(dropSuperseded(db, dialect, taskId));
  if (result.status !== "pending") yield* countChanged(dropOldStateMessages(db, taskId));
  return true;
}

/** Changes a message about the end of a task, and derives the delivery of the task. */
function* settleTerminal(engine: SqlEngine, taskId: string, change: Compilable): Steps<boolean> {
  const { db, dialect } = engine;
  const task = yield* lockTask(engine, taskId);
  if (task === null || !(yield* hasChanged(change))) return false;
  if (task.noticed_at !== null) yield* countChanged(dropSuperseded(db, dialect, taskId));
  yield* deriveDelivery(engine, taskId);
  return true;
}

/** Applies an operator's decision on the failed messages of a task, with its event. */
function* decideOnMessages(
  engine: SqlEngine,
  taskId: string,
  change: Compilable,
  event: NewTaskEvent,
): Steps<number> {
  const { db } = engine;
  if ((yield* lockTask(engine, taskId)) === null) return 0;
  const count = yield* countChanged(change);
  if (count === 0) return 0;
  const [row] = yield* fetchRows(
    db
      .updateTable("tasks")
      .set((column) => ({ last_seq: column("last_seq", "+", 1), version: column("version", "+", 1) }))
      .where("task_id", "=", taskId)
      .returning("last_seq"),
  );
  yield* appendTaskEvents(engine, taskId, (row?.last_seq ?? 1) - 1, [event]);
  yield* deriveDelivery(engine, taskId);
  return count;
}
