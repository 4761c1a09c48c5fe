import { type Compilable, type Kysely, type RawBuilder, sql } from "kysely";
import { defaults } from "../../defaults.js";
import { newOutboxEntry, type NewOutboxEntry, type OutboxEntry, targetKey } from "../../model/outbox.js";
import type { TaskDelivery } from "../../model/task.js";
import { outboxTable, type Schema } from "../schema.js";
import { countChanged, fetchRows, type SqlDialect, type Steps } from "../sql/engine.js";
import type { OutboxResult } from "../tasks/contract.js";
import { isPast, isPending, isSuperseded, nowPlus } from "./claim.js";

type SupersededEntry = Pick<Schema["task_outbox"], "target_key" | "due_at" | "attempts">;

/** Deletes messages about earlier changes that no gateway has begun to send. */
export function dropUnsentStateMessages(db: Kysely<Schema>, taskId: string): Compilable<SupersededEntry> {
  return db
    .deleteFrom("task_outbox")
    .where("task_id", "=", taskId)
    .where("kind", "=", "state")
    .where(isPending)
    .where("lease_owner", "is", null)
    .returning(["target_key", "due_at", "attempts"]);
}

export function* addOutboxEntries(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  taskId: string,
  entries: readonly NewOutboxEntry[],
  replaced: readonly SupersededEntry[],
): Steps<void> {
  for (const { target, notification, inMs } of entries)
    yield* countChanged(
      db.insertInto("task_outbox").values({
        ...outboxTable.toColumns(newOutboxEntry(taskId, { target, notification })),
        target_key: targetKey(target),
        kind: notification.kind,
        due_at: supersededDueAt(replaced, targetKey(target), nowPlus(dialect, inMs)),
        lease_until: null,
      }),
    );
}

/** The due time of a message that replaces an unsent one: the earlier of the two, unless the replaced one was tried. */
function supersededDueAt(
  replaced: readonly SupersededEntry[],
  target: string,
  at: RawBuilder<number>,
): RawBuilder<number> {
  const untried = replaced.find(({ target_key, attempts }) => target_key === target && attempts === 0);
  if (untried === undefined) return at;
  return sql<number>`case when ${untried.due_at} < ${at} then ${untried.due_at} else ${at} end`;
}

/** Records the result of the claimed attempt, unless another gateway has begun another attempt. */
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

/** A message that may have arrived stays marked so; only attempts whose sender was lost are counted. */
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
    undelivered(db, dialect, taskId)
      .where(sql<boolean>`not ${isSuperseded}`)
      .set({ status: "pending", spent_ms: 0, settled_at: null, due_at: dialect.now() })
      // An earlier attempt may have arrived.
      .set({ unheard: sql<number>`case when unheard = 0 then 0 else 1 end` })
  );
}

export function dismissOutboxEntries(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  taskId: string,
  at: number,
): Compilable {
  return undelivered(db, dialect, taskId).set({ status: "dismissed", settled_at: at });
}

/** The messages that an operator can retry or dismiss: failed ones, and waiting ones that are not being sent. */
function undelivered(db: Kysely<Schema>, dialect: SqlDialect, taskId: string) {
  return db
    .updateTable("task_outbox")
    .where("task_id", "=", taskId)
    .where((is) =>
      is.or([
        is("status", "in", ["failed", "parent_missing"]),
        is.and([isPending, is.or([is("lease_until", "is", null), isPast(dialect, "lease_until")])]),
      ]),
    );
}

/** Deletes superseded messages that are not being sent. */
export function dropSuperseded(db: Kysely<Schema>, dialect: SqlDialect, taskId: string): Compilable {
  return db
    .deleteFrom("task_outbox")
    .where("task_id", "=", taskId)
    .where(isSuperseded)
    .where(isPending)
    .where((is) => is.or([is("lease_until", "is", null), isPast(dialect, "lease_until")]));
}

/** Deletes settled messages about changes, except the newest: a task may run for months. */
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

/** The delivery of a task is the worst status of the messages about its end. Dismissed messages do not count. */
const WORST_FIRST: readonly TaskDelivery[] = [
  "pending",
  "failed",
  "parent_missing",
  "session_queued",
  "delivered",
];

/** Locks the row of a task, so that its messages are settled one after the other. */
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
  const update = db.updateTable("tasks").set({ delivery }).where("task_id", "=", taskId);
  yield* countChanged(update.where("ended_at", "is not", null).where("delivery", "<>", delivery));
}
