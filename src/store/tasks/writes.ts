import type { Compilable } from "kysely";
import { defaults } from "../../defaults.js";
import type { NewTaskEvent, TaskEvent, TaskRecord, TaskStatus } from "../../model/task.js";
import type { OutboxEntry, OutboxStatus } from "../../model/outbox.js";
import { SqlGatewayStore } from "../gateways/writes.js";
import { addOutboxEntries, dropUnsentStateMessages } from "../outbox/add.js";
import { claimOutboxEntries, nextOutboxDelay, releaseOutboxEntries } from "../outbox/claim.js";
import {
  acknowledgeOutboxEntry,
  deriveDelivery,
  dismissOutboxEntries,
  dropOldStateMessages,
  dropSuperseded,
  lockTask,
  retryOutboxEntries,
  settleOutboxEntry,
} from "../outbox/settle.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import * as read from "./queries.js";
import { restoreTask } from "./restore.js";
import { toTaskColumns, toTaskRecord } from "./rows.js";
import type {
  NewTask,
  OutboxClaim,
  OutboxFilter,
  OutboxResult,
  RestoredTask,
  TaskChange,
  TaskFilter,
  TaskRestoration,
  TaskStore,
} from "./store.js";

export class SqlTaskStore extends SqlGatewayStore implements TaskStore {
  readonly #engine: SqlEngine;

  constructor(engine: SqlEngine, eventsKept: number) {
    super(engine, eventsKept);
    this.#engine = engine;
  }

  get generationChangedAt(): number {
    return this.#engine.generationChangedAt;
  }

  async insertTask(
    task: NewTask,
    events: readonly NewTaskEvent[],
  ): Promise<{ readonly task: TaskRecord; readonly created: boolean }> {
    const answer = await this.#engine.transact(() => this.#insert(task, events));
    // Also when it was there: the sync of whoever wrote it may have failed.
    await this.#engine.flush();
    return answer;
  }

  async commitTask(taskId: string, version: number, change: TaskChange): Promise<TaskRecord | null> {
    const task = await this.#engine.transact(() => this.#commit(taskId, version, change));
    if (task !== null && (change.events ?? []).length > 0) await this.#engine.flush();
    return task;
  }

  getTask(taskId: string): Promise<TaskRecord | null> {
    return read.getTask(this.#engine.db, taskId);
  }

  getTaskByKey(key: string): Promise<TaskRecord | null> {
    return read.getTaskByKey(this.#engine.db, key);
  }

  findTasks(prefix: string, limit: number): Promise<readonly TaskRecord[]> {
    return read.findTasks(this.#engine.db, prefix, limit);
  }

  listTasks(filter: TaskFilter): Promise<readonly TaskRecord[]> {
    return read.listTasks(this.#engine.db, filter);
  }

  async restoreTask(told: RestoredTask, event: NewTaskEvent): Promise<TaskRestoration> {
    const { db, dialect } = this.#engine;
    const restored = await this.#engine.transact(() => restoreTask(db, dialect, told, event));
    if (restored === "restored") await this.#engine.flush();
    return restored;
  }

  countOpenTasks(): Promise<ReadonlyMap<TaskStatus, number>> {
    return read.countOpenTasks(this.#engine.db);
  }

  listTaskEvents(taskId: string): Promise<readonly TaskEvent[]> {
    return read.listTaskEvents(this.#engine.db, taskId);
  }

  async deleteTasks(taskIds: readonly string[]): Promise<number> {
    if (taskIds.length === 0) return 0;
    const gone = this.#engine.db
      .deleteFrom("tasks")
      .where("task_id", "in", taskIds)
      .where("ended_at", "is not", null)
      .where("delivery", "<>", "pending");
    return this.#engine.perform(() => countChanged(gone));
  }

  listOutbox(filter: OutboxFilter): Promise<readonly OutboxEntry[]> {
    return read.listOutbox(this.#engine.db, filter);
  }

  countUndelivered(): Promise<ReadonlyMap<OutboxStatus, number>> {
    return read.countUndelivered(this.#engine.db);
  }

  async claimOutbox(claim: OutboxClaim): Promise<readonly OutboxEntry[]> {
    const { db, dialect } = this.#engine;
    const claimed = await this.#engine.transact(() => claimOutboxEntries(db, dialect, claim));
    if (claimed.length > 0) await this.#engine.flush();
    return claimed;
  }

  nextOutboxDelay(except: readonly string[] = []): Promise<number | null> {
    return this.#engine.perform(() => nextOutboxDelay(this.#engine.db, this.#engine.dialect, except));
  }

  settleOutbox(entry: OutboxEntry, result: OutboxResult): Promise<boolean> {
    return this.#engine.transact(() => this.#settle(entry, result));
  }

  releaseOutbox(owner: string): Promise<number> {
    return this.#engine.perform(() => countChanged(releaseOutboxEntries(this.#engine.db, owner)));
  }

  acknowledgeOutbox(
    key: string,
    taskId: string,
    at: number,
    as: "delivered" | "parent_missing" = "delivered",
  ): Promise<boolean> {
    const acknowledge = acknowledgeOutboxEntry(this.#engine.db, key, at, as);
    return this.#engine.transact(() => this.#settleTerminal(taskId, acknowledge));
  }

  retryOutbox(taskId: string, event: NewTaskEvent): Promise<number> {
    const retry = retryOutboxEntries(this.#engine.db, this.#engine.dialect, taskId);
    return this.#decideAndFlush(taskId, retry, event);
  }

  dismissOutbox(taskId: string, event: NewTaskEvent): Promise<number> {
    const dismiss = dismissOutboxEntries(this.#engine.db, taskId, event.at);
    return this.#decideAndFlush(taskId, dismiss, event);
  }

  async #decideAndFlush(taskId: string, change: Compilable, event: NewTaskEvent): Promise<number> {
    const count = await this.#engine.transact(() => this.#decide(taskId, change, event));
    if (count > 0) await this.#engine.flush();
    return count;
  }

  *#insert(
    task: NewTask,
    events: readonly NewTaskEvent[],
  ): Steps<{ readonly task: TaskRecord; readonly created: boolean }> {
    const { db } = this.#engine;
    for (;;) {
      const record: TaskRecord = { ...task, seq: events.length, version: 1 };
      const insert = db.insertInto("tasks").values(toTaskColumns(record));
      const once = insert.onConflict((conflict) => conflict.column("key").doNothing());
      if ((yield* countChanged(once)) > 0) {
        yield* this.#append(task.taskId, 0, events);
        return { task: record, created: true };
      }
      const [row] = yield* fetchRows(db.selectFrom("tasks").selectAll().where("key", "=", task.key));
      // None: it was forgotten between the two, and this one can be written after all.
      if (row !== undefined) return { task: toTaskRecord(row), created: false };
    }
  }

  /** The task's own row first: whoever changes anything of a task waits for it. */
  *#commit(taskId: string, version: number, change: TaskChange): Steps<TaskRecord | null> {
    const { db, dialect } = this.#engine;
    const { set = {}, events = [], notices = [] } = change;
    const [row] = yield* fetchRows(
      db
        .updateTable("tasks")
        .set(toTaskColumns(set))
        .set({ version: version + 1 })
        .set((column) => ({ last_seq: column("last_seq", "+", events.length) }))
        .where("task_id", "=", taskId)
        .where("version", "=", version)
        .returningAll(),
    );
    if (row === undefined) return null;
    yield* this.#append(taskId, row.last_seq - events.length, events);
    const ends = set.endedAt !== undefined && set.endedAt !== null;
    const overtakes = ends || notices.length > 0 || set.policy !== undefined;
    const replaced =
      overtakes && row.noticed_at !== null ? yield* fetchRows(dropUnsentStateMessages(db, taskId)) : [];
    yield* addOutboxEntries(db, dialect, taskId, notices, replaced);
    return toTaskRecord(row);
  }

  *#append(taskId: string, after: number, events: readonly NewTaskEvent[]): Steps<void> {
    if (events.length === 0) return;
    const { db } = this.#engine;
    const rows = events.map(({ at, type, data }, index) => ({
      task_id: taskId,
      seq: after + index + 1,
      at,
      type,
      data: JSON.stringify(data),
    }));
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

  *#settle(entry: OutboxEntry, result: OutboxResult): Steps<boolean> {
    const { db, dialect } = this.#engine;
    const { taskId } = entry;
    const settle = settleOutboxEntry(db, dialect, entry, result);
    if (entry.notification.kind === "terminal") return yield* this.#settleTerminal(taskId, settle);
    if ((yield* countChanged(settle)) === 0) return false;
    yield* countChanged(dropSuperseded(db, dialect, taskId));
    if (result.status !== "pending") yield* countChanged(dropOldStateMessages(db, taskId));
    return true;
  }

  /** What becomes of a message about an end, and what follows from it for its task. */
  *#settleTerminal(taskId: string, change: Compilable): Steps<boolean> {
    const { db, dialect } = this.#engine;
    const held = yield* lockTask(db, taskId);
    if (held === null || (yield* countChanged(change)) === 0) return false;
    if (held.noticed_at !== null) yield* countChanged(dropSuperseded(db, dialect, taskId));
    yield* deriveDelivery(db, taskId);
    return true;
  }

  *#decide(taskId: string, change: Compilable, event: NewTaskEvent): Steps<number> {
    const { db } = this.#engine;
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
    yield* this.#append(taskId, (row?.last_seq ?? 1) - 1, [event]);
    yield* deriveDelivery(db, taskId);
    return count;
  }
}
