import { type Compilable, type Insertable, type Kysely, sql } from "kysely";
import { defaults } from "../../defaults.js";
import { newOutboxEntry, type NewOutboxEntry, type OutboxEntry, targetKey } from "../../model/outbox.js";
import { outboxTable, type Schema } from "../schema.js";
import { countChanged, type SqlDialect, type SqlEngine, type Steps } from "../sql/engine.js";
import { shapeOf } from "../sql/statement-cache.js";
import type { OutboxResult } from "../tasks/contract.js";
import { isPast, isPending, isSuperseded } from "./claim.js";

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
  { db, dialect, statements }: SqlEngine,
  taskId: string,
  entries: readonly NewOutboxEntry[],
  replaced: readonly SupersededEntry[],
): Steps<void> {
  for (const { target, notification, inMs } of entries) {
    const { due_at: _, ...row } = outboxTable.toColumns(newOutboxEntry(taskId, { target, notification }));
    const target_key = targetKey(target);
    const values = { ...row, target_key, kind: notification.kind, in_ms: Math.ceil(inMs) };
    const earlier = supersededDueAt(replaced, target_key);
    yield* countChanged(
      statements.bind(
        `insert a message ${earlier !== null}`,
        { ...values, earlier: earlier ?? 0 },
        ({ in_ms, earlier: before, ...places }) => {
          const due = sql<number>`${dialect.now()} + ${in_ms}`;
          const due_at =
            earlier === null ? due : sql<number>`case when ${before} < ${due} then ${before} else ${due} end`;
          return db.insertInto("task_outbox").values({ ...places, due_at, lease_until: null });
        },
      ),
    );
  }
}

/** The due time of the unsent message that a new message replaces; the new message is due no later. Null: none, or it was tried. */
function supersededDueAt(replaced: readonly SupersededEntry[], target: string): number | null {
  const untried = replaced.find(({ target_key, attempts }) => target_key === target && attempts === 0);
  return untried?.due_at ?? null;
}

/** Records the result of the claimed attempt, unless another gateway has begun another attempt. */
export function settleOutboxEntry(
  { db, dialect, statements }: SqlEngine,
  { key, leaseOwner, attempts }: OutboxEntry,
  result: OutboxResult,
): Compilable {
  const { status } = result;
  const values = {
    ...settledColumns(result),
    of_key: key,
    of_owner: leaseOwner ?? "",
    of_attempts: attempts,
    in_ms: Math.ceil(status === "pending" ? result.inMs : 0),
  };
  const unheard = "unheard" in result && result.unheard;
  return statements.bind(shapeOf(`settle ${status} ${unheard}`, values), values, (given) => {
    const { of_key, of_owner, of_attempts, in_ms, ...places } = given;
    return (
      db
        .updateTable("task_outbox")
        .set({ ...places, lease_owner: null, lease_until: null })
        .set(status === "pending" ? { due_at: sql<number>`${dialect.now()} + ${in_ms}` } : {})
        // A message that may have arrived stays marked so; only attempts whose sender was lost are counted.
        .set(unheard ? { unheard: sql<number>`case when unheard = 0 then 1 else unheard end` } : {})
        .where("entry_key", "=", of_key)
        .where("lease_owner", "=", of_owner)
        .where("attempts", "=", of_attempts)
        .where(isPending)
    );
  });
}

/** The columns that a result sets to given values. */
export function settledColumns(result: OutboxResult): Partial<Insertable<Schema["task_outbox"]>> {
  const { status } = result;
  switch (status) {
    case "pending":
      return { error: result.error, spent_ms: Math.ceil(result.spentMs) };
    case "failed":
      return {
        status,
        error: result.error,
        spent_ms: Math.ceil(result.spentMs),
        settled_at: result.at,
      };
    case "delivered":
      return { status, error: null, receipt: result.receipt, settled_at: result.at };
    case "session_queued":
    case "parent_missing":
      return { status, error: null, settled_at: result.at };
  }
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
