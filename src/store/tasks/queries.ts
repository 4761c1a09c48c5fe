import { type Kysely, sql } from "kysely";
import { type OutboxEntry, type OutboxStatus, targetKey } from "../../model/outbox.js";
import type { TaskRecord, TaskStatus } from "../../model/task.js";
import { hasStatus } from "../outbox/claim.js";
import { outboxTable, type Schema, taskEventTable, taskTable } from "../schema.js";
import { isColumnInScope } from "../sessions/queries.js";
import { equals, prefixUpperBound, type Reader, type SqlDialect } from "../sql/engine.js";
import type { Statements } from "../sql/statement-cache.js";
import type { OutboxFilter, TaskFilter, TaskReads } from "./contract.js";

/** Literals, not parameters, so that the partial indexes are used. */
const open = sql<boolean>`ended_at is null`;
const ended = sql<boolean>`ended_at is not null`;

export function taskQueries(reader: Reader): TaskReads {
  const getTask = reader.group<string, TaskRecord | null>({
    alone: (taskId) => reader.read((db) => selectTask(db, reader.statements, taskId), null),
    together: (taskIds) => reader.read((db) => selectTasks(db, reader.statements, taskIds), []),
    shapeOf: () => "",
    recordOf: () => null,
  });
  return {
    getTask,
    getTaskByKey: (key) =>
      reader.read((db) => taskTable.first(db.selectFrom("tasks").selectAll().where("key", "=", key)), null),
    findTasks: (prefix, limit) => reader.read((db) => findTasks(db, prefix, limit), []),
    listTasks: (filter) => reader.read((db) => listTasks(db, reader.dialect, filter), []),
    countOpenTasks: () => reader.read(countOpenTasks, new Map()),
    listTaskEvents: (taskId) =>
      reader.read((db) => {
        const query = db.selectFrom("task_events").selectAll().where("task_id", "=", taskId);
        return taskEventTable.list(query.orderBy("seq"));
      }, []),
    listOutbox: (filter) => reader.read((db) => listOutbox(db, filter), []),
    countUndelivered: () => reader.read(countUndelivered, new Map()),
  };
}

async function selectTask(
  db: Kysely<Schema>,
  statements: Statements,
  taskId: string,
): Promise<TaskRecord | null> {
  const query = statements.bind("a task", { taskId }, (given) =>
    db.selectFrom("tasks").select(taskTable.columns).where("task_id", "=", given.taskId),
  );
  const [row] = (await db.executeQuery(query.compile())).rows;
  return row === undefined ? null : taskTable.toRecord(row);
}

/** PostgreSQL only. */
async function selectTasks(
  db: Kysely<Schema>,
  statements: Statements,
  taskIds: readonly string[],
): Promise<readonly (TaskRecord | null)[]> {
  const query = statements.bind("tasks", { taskIds }, (given) =>
    db
      .selectFrom("tasks")
      .selectAll()
      .where(sql<boolean>`task_id = any(${given.taskIds}::text[])`),
  );
  const { rows } = await db.executeQuery(query.compile());
  const found = new Map(rows.map((row) => [row.task_id, taskTable.toRecord(row)]));
  return taskIds.map((taskId) => found.get(taskId) ?? null);
}

async function findTasks(db: Kysely<Schema>, prefix: string, limit: number): Promise<readonly TaskRecord[]> {
  return taskTable.list(
    db
      .selectFrom("tasks")
      .selectAll()
      .where("task_id", ">=", prefix)
      .where("task_id", "<", prefixUpperBound(prefix))
      .orderBy("task_id")
      .limit(limit),
  );
}

async function listTasks(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: TaskFilter,
): Promise<readonly TaskRecord[]> {
  const { sessionId, childSessionId } = filter;
  if (childSessionId !== undefined)
    return selectTaskPage(db, dialect, filter, { child_session_id: childSessionId });
  if (sessionId === undefined) return selectTaskPage(db, dialect, filter, {});
  // Two queries, each on an index with the right order. One query for both would sort all rows for every page.
  const requested = await selectTaskPage(db, dialect, filter, { owner_session_id: sessionId });
  const done = await selectTaskPage(db, dialect, filter, { child_session_id: sessionId });
  const both = new Map([...requested, ...done].map((task) => [task.taskId, task]));
  return [...both.values()].toSorted(newestFirst).slice(0, filter.limit);
}

async function listOutbox(
  db: Kysely<Schema>,
  { taskId, taskIds, target, statuses, after, limit }: OutboxFilter,
): Promise<readonly OutboxEntry[]> {
  const key = target === undefined ? undefined : targetKey(target);
  let query = db
    .selectFrom("task_outbox")
    .selectAll()
    .where(equals("task_outbox", { task_id: taskId ?? taskIds, target_key: key }))
    .orderBy("created_at")
    .orderBy("entry_key");
  if (statuses !== undefined) query = query.where((is) => is.or(statuses.map(hasStatus)));
  if (after !== undefined)
    query = query.where(sql<boolean>`(created_at, entry_key) > (${after.createdAt}, ${after.key})`);
  return outboxTable.list(limit === undefined ? query : query.limit(limit));
}

async function countOpenTasks(db: Kysely<Schema>): Promise<ReadonlyMap<TaskStatus, number>> {
  const rows = await db
    .selectFrom("tasks")
    .select(({ fn }) => ["status", fn.countAll<number>().as("count")])
    // This condition uses the index on the status; the index of open tasks does not contain the status.
    .where("status", "in", ["queued", "running"])
    .groupBy("status")
    .execute();
  return new Map(rows.map(({ status, count }) => [status, count]));
}

/** One query per status, because each has its own partial index. */
async function countUndelivered(db: Kysely<Schema>): Promise<ReadonlyMap<OutboxStatus, number>> {
  const counts = new Map<OutboxStatus, number>();
  for (const status of ["pending", "session_queued", "failed"] as const) {
    const counted = db.selectFrom("task_outbox").select(({ fn }) => fn.countAll<number>().as("count"));
    const { count } = await counted.where(hasStatus(status)).executeTakeFirstOrThrow();
    if (count > 0) counts.set(status, count);
  }
  return counts;
}

async function selectTaskPage(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: TaskFilter,
  session: { readonly owner_session_id?: string; readonly child_session_id?: string },
): Promise<readonly TaskRecord[]> {
  const { taskIds, statuses, runtimes, deliveries, runId, cleanupBefore, seenBy, after } = filter;
  // The `+` keeps the planner off the index on the age: few tasks are due for cleanup, and it would read all others.
  const age = cleanupBefore === undefined ? sql.ref<number>("created_at") : sql<number>`+created_at`;
  const given = {
    ...session,
    task_id: taskIds,
    status: statuses,
    runtime: runtimes,
    delivery: deliveries,
    run_id: runId,
  };
  let query = db
    .selectFrom("tasks")
    .where(equals("tasks", given))
    .orderBy(age, "desc")
    .orderBy("task_id", "desc")
    .limit(filter.limit);
  if (filter.open !== undefined) query = query.where(filter.open ? open : ended);
  if (cleanupBefore !== undefined) query = query.where("cleanup_after", "<", cleanupBefore);
  if (after !== undefined)
    query = query.where(sql<boolean>`(${age}, task_id) < (${after.createdAt}, ${after.taskId})`);
  if (seenBy === undefined) return taskTable.list(query.selectAll());
  query = query.where((is) =>
    is.or([
      isColumnInScope(dialect, "owner_session_id", seenBy),
      isColumnInScope(dialect, "child_session_id", seenBy),
    ]),
  );
  // No index gives a session's tasks in order. The database sorts ids, which are short, instead of whole rows.
  const page = db.selectFrom("tasks").selectAll().where("task_id", "in", query.select("task_id"));
  return taskTable.list(page.orderBy("created_at", "desc").orderBy("task_id", "desc"));
}

function newestFirst(one: TaskRecord, other: TaskRecord): number {
  return other.createdAt - one.createdAt || (one.taskId < other.taskId ? 1 : -1);
}
