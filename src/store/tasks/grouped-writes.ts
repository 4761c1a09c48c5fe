import { type RawBuilder, sql } from "kysely";
import { defaults } from "../../defaults.js";
import { newOutboxEntry, type OutboxEntry, targetKey } from "../../model/outbox.js";
import type { NewTaskEvent, TaskRecord } from "../../model/task.js";
import { settledColumns } from "../outbox/writes.js";
import { outboxTable, taskEventTable, taskTable } from "../schema.js";
import { fetchRows, type SqlEngine } from "../sql/engine.js";
import { assignments, columnList, rowSet, type RowSet, type RowSetValues } from "../sql/row-set.js";
import type { Placeholders } from "../sql/statement-cache.js";
import type { NewTask, OutboxResult, TaskChange } from "./contract.js";
import { endsOrReplaces } from "./delivery.js";

// PostgreSQL only: one statement for the same write of many tasks, with their events and messages.

export interface NewTaskCall {
  readonly task: NewTask;
  readonly events: readonly NewTaskEvent[];
}

export interface TaskChangeCall {
  readonly taskId: string;
  readonly version: number;
  readonly change: TaskChange;
}

export interface SettleCall {
  readonly entry: OutboxEntry;
  readonly result: OutboxResult;
}

/** The record as it is inserted. */
export function newTaskRecord({ task, events }: NewTaskCall): TaskRecord {
  return { ...task, seq: events.length, version: 1 };
}

/** Inserts tasks. Those whose key is taken are left out. Returns the ids of the others. */
export async function insertTasksTogether(
  engine: SqlEngine,
  calls: readonly NewTaskCall[],
): Promise<ReadonlySet<string>> {
  const given = rowSet(
    "given",
    "tasks",
    calls.map((call) => taskTable.toColumns(newTaskRecord(call)) as Readonly<Record<string, unknown>>),
  );
  const event = rowSet(
    "event",
    "task_events",
    calls.flatMap(({ task, events }) => eventRows(task.taskId, events)),
  );
  const rows = await execute<{ readonly task_id: string }>(
    engine,
    "insert tasks",
    [given, event],
    (places) => sql`with changed as (
      insert into tasks (${columnList(given.columns)})
      select ${columnList(given.columns, "given")} from ${given.from(places)}
      on conflict (key) do nothing
      returning tasks.task_id
    )${written("events", event, places, (from) => insertEvents(from, sql`event.seq`))}
    select task_id from changed`,
  );
  return new Set(rows.map(({ task_id }) => task_id));
}

/**
 * Changes tasks, all in the same columns. Those with another version are left out, and those that need more statements:
 * they may have unsent messages about earlier changes, or too many events.
 */
export async function changeTasksTogether(
  engine: SqlEngine,
  calls: readonly TaskChangeCall[],
): Promise<ReadonlyMap<string, TaskRecord>> {
  const given = rowSet(
    "given",
    "tasks",
    calls.map(({ taskId, version, change }) => ({
      ...taskTable.toColumns(change.set ?? {}),
      of_task: taskId,
      of_version: version,
      of_events: change.events?.length ?? 0,
      of_replaced: endsOrReplaces(change) ? 1 : 0,
    })),
    { of_task: "text", of_version: "bigint", of_events: "bigint", of_replaced: "bigint" },
  );
  const event = rowSet(
    "event",
    "task_events",
    calls.flatMap(({ taskId, change }) => eventRows(taskId, change.events ?? [])),
  );
  const message = rowSet(
    "message",
    "task_outbox",
    calls.flatMap(({ taskId, change }) => messageRows(taskId, change)),
    { in_ms: "bigint" },
  );
  const columns = given.columns.filter((column) => !column.startsWith("of_"));
  const sent = message.columns.filter((column) => column !== "in_ms");
  const rows = await execute<Readonly<Record<string, unknown>>>(
    engine,
    "change tasks",
    [given, event, message],
    (places) => sql`with changed as (
      update tasks set ${sql.join([
        ...assignments(columns, "given"),
        sql`version = tasks.version + 1`,
        sql`last_seq = tasks.last_seq + given.of_events`,
      ])}
      from ${given.from(places)}
      where tasks.task_id = given.of_task and tasks.version = given.of_version
        and (tasks.noticed_at is null or given.of_replaced = 0)
        and tasks.last_seq + given.of_events <= ${sql.lit(defaults.taskEventsKept)}
      returning tasks.*, tasks.last_seq - given.of_events as seq_before
    )${written("events", event, places, (from) => insertEvents(from, sql`changed.seq_before + event.seq`))}${written(
      "messages",
      message,
      places,
      (from) => sql`
        insert into task_outbox (${columnList(sent)}, due_at, lease_until)
        select ${columnList(sent, "message")}, ${engine.dialect.now()} + message.in_ms, null
        from ${from} join changed on changed.task_id = message.task_id`,
    )}
    select * from changed`,
  );
  const tasks = rows.map((row) => taskTable.toRecord(row));
  return new Map(tasks.map((task) => [task.taskId, task]));
}

/**
 * Records the results, all of one status, of attempts to deliver messages about ends of tasks, and the `delivery` of those
 * tasks. Leaves out messages whose claim is lost, and messages of tasks that have had other messages. Returns the keys of
 * the recorded messages.
 */
export async function settleTogether(
  engine: SqlEngine,
  calls: readonly SettleCall[],
): Promise<ReadonlySet<string>> {
  const status = calls[0]?.result.status ?? "pending";
  const given = rowSet(
    "given",
    "task_outbox",
    calls.map(({ entry, result }) => ({
      ...settledColumns(result),
      of_key: entry.key,
      of_task: entry.taskId,
      of_owner: entry.leaseOwner,
      of_attempts: entry.attempts,
      of_unheard: "unheard" in result && result.unheard ? 1 : 0,
      of_ms: result.status === "pending" ? Math.ceil(result.inMs) : 0,
    })),
    {
      of_key: "text",
      of_task: "text",
      of_owner: "text",
      of_attempts: "bigint",
      of_unheard: "bigint",
      of_ms: "bigint",
    },
  );
  const columns = given.columns.filter((column) => !column.startsWith("of_"));
  const due = status === "pending" ? [sql`due_at = ${engine.dialect.now()} + given.of_ms`] : [];
  const rows = await execute<{ readonly entry_key: string }>(
    engine,
    `settle messages: ${status}`,
    [given],
    (places) => sql`with given as materialized (select * from ${given.from(places)}),
    -- As for one message: the task's row orders the changes of its messages.
    held as (
      select tasks.task_id from tasks
      where tasks.task_id in (select of_task from given) and tasks.noticed_at is null
      order by tasks.task_id for update
    ),
    changed as (
      update task_outbox set ${sql.join([
        ...assignments(columns, "given"),
        ...due,
        sql`unheard = case when given.of_unheard = 1 and task_outbox.unheard = 0 then 1 else task_outbox.unheard end`,
        sql`lease_owner = null`,
        sql`lease_until = null`,
      ])}
      from given join held on held.task_id = given.of_task
      where task_outbox.entry_key = given.of_key and task_outbox.lease_owner = given.of_owner
        and task_outbox.attempts = given.of_attempts and task_outbox.status = 'pending'
        and not exists (
          select 1 from task_outbox as other where other.task_id = given.of_task and other.entry_key <> given.of_key
        )
      returning task_outbox.entry_key, task_outbox.task_id
    ),
    delivered as (
      update tasks set delivery = ${sql.lit(status)} from changed
      where tasks.task_id = changed.task_id and tasks.ended_at is not null and tasks.delivery <> ${sql.lit(status)}
    )
    select entry_key from changed`,
  );
  return new Set(rows.map(({ entry_key }) => entry_key));
}

function eventRows(
  taskId: string,
  events: readonly NewTaskEvent[],
): readonly Readonly<Record<string, unknown>>[] {
  return events.map(({ at, type, data }, index) => ({
    ...taskEventTable.toColumns({ taskId, seq: index + 1, at, type, data }),
  }));
}

function messageRows(
  taskId: string,
  { notices = [] }: TaskChange,
): readonly Readonly<Record<string, unknown>>[] {
  return notices.map(({ target, notification, inMs }) => {
    const { due_at: _, ...row } = outboxTable.toColumns(newOutboxEntry(taskId, { target, notification }));
    return { ...row, target_key: targetKey(target), kind: notification.kind, in_ms: Math.ceil(inMs) };
  });
}

function insertEvents(from: RawBuilder<unknown>, seq: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    insert into task_events (task_id, seq, at, type, data)
    select event.task_id, ${seq}, event.at, event.type, event.data
    from ${from} join changed on changed.task_id = event.task_id`;
}

/** A further part of a statement, if there are rows for it. */
function written(
  name: string,
  rows: RowSet,
  places: Placeholders<RowSetValues>,
  insert: (from: RawBuilder<unknown>) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  return rows.columns.length === 0 ? sql`` : sql`, ${sql.ref(name)} as (${insert(rows.from(places))})`;
}

async function execute<Row>(
  engine: SqlEngine,
  name: string,
  sets: readonly RowSet[],
  build: (places: Placeholders<RowSetValues>) => RawBuilder<unknown>,
): Promise<readonly Row[]> {
  const { db, statements } = engine;
  const values: RowSetValues = Object.assign({}, ...sets.map((set) => set.values));
  const statement = statements.bind<Row, RowSetValues>(
    `${name}: ${Object.keys(values).join(" ")}`,
    values,
    (places) => {
      const query = build(places) as RawBuilder<Row>;
      return { compile: () => query.compile(db) };
    },
  );
  return engine.perform(() => fetchRows(statement));
}
