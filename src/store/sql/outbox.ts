import { sql } from "kysely";
import type { Compilable, Kysely, RawBuilder } from "kysely";
import { defaults } from "../../defaults.js";
import type { Schema } from "../schema.js";
import { toOutboxEntry } from "../task-columns.js";
import { channelKey, outboxKey, targetKey } from "../task-record.js";
import type { NewOutboxEntry, OutboxEntry, TaskDelivery } from "../task-record.js";
import type { OutboxClaim, OutboxResult } from "../task-store.js";
import type { Words } from "./engine.js";
import { countOf, rowsOf, type Steps } from "./steps.js";

/** A literal, not a parameter: only so can the partial index serve. */
const pending = sql<boolean>`status = 'pending'`;

/** Nothing is put off or leased for so long: a time beyond it is of another boot's clock, and means nothing now. */
const HORIZON_MS = 3_600_000;

export function* addEntries(
  db: Kysely<Schema>,
  words: Words,
  taskId: string,
  entries: readonly NewOutboxEntry[],
  replaced: readonly Replaced[],
): Steps<void> {
  for (const { target, notification, inMs } of entries)
    yield* countOf(
      db.insertInto("task_outbox").values({
        entry_key: outboxKey(notification.id, target),
        task_id: taskId,
        target_key: targetKey(target),
        kind: notification.kind,
        target: JSON.stringify(target),
        notification: JSON.stringify(notification),
        status: "pending",
        attempts: 0,
        unheard: 0,
        spent_ms: 0,
        created_at: notification.at,
        due_at: inPlaceOf(replaced, targetKey(target), later(words, inMs)),
        lease_owner: null,
        lease_until: null,
        error: null,
        receipt: null,
        settled_at: null,
      }),
    );
}

type Replaced = Pick<Schema["task_outbox"], "target_key" | "due_at" | "attempts">;

/** Who was to hear of an earlier change hears of this one then; unless that was tried, and its time is over. */
function inPlaceOf(
  replaced: readonly Replaced[],
  target: string,
  at: RawBuilder<number>,
): RawBuilder<number> {
  const untried = replaced.find(({ target_key, attempts }) => target_key === target && attempts === 0);
  if (untried === undefined) return at;
  return sql<number>`case when ${untried.due_at} < ${at} then ${untried.due_at} else ${at} end`;
}

/** What nobody has begun to send of earlier changes. */
export function dropStates(db: Kysely<Schema>, taskId: string): Compilable<Replaced> {
  return db
    .deleteFrom("task_outbox")
    .where("task_id", "=", taskId)
    .where("kind", "=", "state")
    .where(pending)
    .where("lease_owner", "is", null)
    .returning(["target_key", "due_at", "attempts"]);
}

/** Within a transaction. */
export function* claimEntries(
  db: Kysely<Schema>,
  words: Words,
  { owner, leaseMs, limit, except = [] }: OutboxClaim,
): Steps<readonly OutboxEntry[]> {
  yield* countOf(dropAbandoned(db, words));
  const free = yield* rowsOf(
    db
      .selectFrom("task_outbox")
      .select("entry_key")
      .where(pending)
      .where(isOver(words, "due_at"))
      .where((is) => is.or([is("lease_until", "is", null), isOver(words, "lease_until")]))
      .where(inOrder(words))
      .where(notFor(except))
      .orderBy("due_at")
      .limit(limit)
      .modifyEnd(words.take),
  );
  if (free.length === 0) return [];
  const rows = yield* rowsOf(
    db
      .updateTable("task_outbox")
      .set({ lease_owner: owner, lease_until: later(words, leaseMs) })
      .set((column) => ({
        attempts: column("attempts", "+", 1),
        unheard: sql<number>`case when lease_owner is null then unheard else unheard + 1 end`,
      }))
      .where(
        "entry_key",
        "in",
        free.map(({ entry_key }) => entry_key),
      )
      .returningAll(),
  );
  return rows.map(toOutboxEntry).toSorted((one, other) => one.dueAt - other.dueAt);
}

export function* dueIn(db: Kysely<Schema>, words: Words, except: readonly string[]): Steps<number | null> {
  const at = sql<number>`case when lease_until > due_at then lease_until else due_at end`;
  const [row] = yield* rowsOf(
    db
      .selectFrom("task_outbox")
      .select(sql<number | null>`min(${at}) - ${words.now()}`.as("ms"))
      .where(pending)
      .where(inOrder(words))
      .where(notFor(except)),
  );
  const ms = row?.ms ?? null;
  if (ms === null) return null;
  return ms > HORIZON_MS ? 0 : Math.max(0, ms);
}

function notFor(channels: readonly string[]): RawBuilder<boolean> {
  const isOther = channels.map(channelKey).map((key) => sql`substr(target_key, 1, ${key.length}) <> ${key}`);
  return isOther.length === 0 ? sql<boolean>`1 = 1` : sql<boolean>`(${sql.join(isOther, sql` and `)})`;
}

/** The clock is asked once, not for every row. */
function isOver(words: Words, column: "due_at" | "lease_until"): RawBuilder<boolean> {
  const [at, now] = [sql.ref(column), words.now()];
  return sql<boolean>`(${at} <= (select ${now}) or ${at} > (select ${now}) + ${HORIZON_MS})`;
}

/** One about a change that is being sent comes before the end; one that is not has nothing to say beside it. */
function inOrder(words: Words): RawBuilder<boolean> {
  const now = words.now();
  return sql<boolean>`case when kind = 'terminal' then not exists (
    select 1 from task_outbox as other
    where other.task_id = task_outbox.task_id and other.kind = 'state' and other.target_key = task_outbox.target_key
      and other.lease_until > (select ${now}) and other.lease_until <= (select ${now}) + ${HORIZON_MS}
  ) else not ${overtaken} end`;
}

/**
 * One about a change, when the task has ended, nobody wants to hear of changes any more, or there is a newer one for the
 * same target. Their keys differ in their numbers; their times are of a clock that may have been set back.
 */
const overtaken = sql<boolean>`(kind = 'state' and (exists (
    select 1 from tasks where tasks.task_id = task_outbox.task_id
      and (tasks.ended_at is not null or tasks.policy <> 'state_changes')
  ) or exists (
    select 1 from task_outbox as newer
    where newer.task_id = task_outbox.task_id and newer.kind = 'state' and newer.target_key = task_outbox.target_key
      and (length(newer.entry_key), newer.entry_key) > (length(task_outbox.entry_key), task_outbox.entry_key)
  )))`;

/** Of the attempt that was claimed, as long as nobody else has begun another. */
export function settleEntry(
  db: Kysely<Schema>,
  words: Words,
  { key, leaseOwner, attempts }: OutboxEntry,
  result: OutboxResult,
): Compilable {
  const settle = db
    .updateTable("task_outbox")
    .set({ lease_owner: null, lease_until: null })
    .where("entry_key", "=", key)
    .where("lease_owner", "=", leaseOwner)
    .where("attempts", "=", attempts)
    .where(pending);
  const { status } = result;
  switch (status) {
    case "pending":
      return settle.set({
        ...unheardOf(result),
        error: result.error,
        spent_ms: Math.ceil(result.spentMs),
        due_at: later(words, result.inMs),
      });
    case "failed":
      return settle.set({
        ...unheardOf(result),
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
function unheardOf({ unheard = false }: { readonly unheard?: boolean }) {
  return unheard ? { unheard: sql<number>`case when unheard = 0 then 1 else unheard end` } : {};
}

export function acknowledgeEntry(
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

export function retryEntries(db: Kysely<Schema>, words: Words, taskId: string): Compilable {
  return (
    undelivered(db, taskId)
      .where(sql<boolean>`not ${overtaken}`)
      .set({ status: "pending", spent_ms: 0, settled_at: null, due_at: words.now() })
      // It may have arrived all the same.
      .set({ unheard: sql<number>`case when unheard = 0 then 0 else 1 end` })
  );
}

export function dismissEntries(db: Kysely<Schema>, taskId: string, at: number): Compilable {
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
export function dropOvertaken(db: Kysely<Schema>, words: Words, taskId: string): Compilable {
  return db
    .deleteFrom("task_outbox")
    .where("task_id", "=", taskId)
    .where(overtaken)
    .where(pending)
    .where((is) => is.or([is("lease_until", "is", null), isOver(words, "lease_until")]));
}

/** The same of all tasks, of those that somebody had begun to send: nobody else will settle anything of such a task. */
function dropAbandoned(db: Kysely<Schema>, words: Words): Compilable {
  const abandoned = db
    .selectFrom("task_outbox")
    .select("entry_key")
    .where("lease_owner", "is not", null)
    .where(overtaken)
    .where(pending)
    .where(isOver(words, "lease_until"))
    .modifyEnd(words.take);
  return db.deleteFrom("task_outbox").where("entry_key", "in", abandoned);
}

/** Whoever had this name is gone. Within a transaction. */
export function* releaseEntries(db: Kysely<Schema>, owner: string): Steps<number> {
  const drop = db.deleteFrom("task_outbox").where("lease_owner", "=", owner).where(overtaken).where(pending);
  yield* countOf(drop);
  const release = db
    .updateTable("task_outbox")
    .set({ lease_owner: null, lease_until: null })
    .set((column) => ({ unheard: column("unheard", "+", 1) }))
    .where("lease_owner", "=", owner);
  return yield* countOf(release);
}

/** Of those about changes that are settled, all but the newest: work may go on for months. */
export function dropOldStates(db: Kysely<Schema>, taskId: string): Compilable {
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
export function* holdTask(
  db: Kysely<Schema>,
  taskId: string,
): Steps<{ readonly noticed_at: number | null } | null> {
  const hold = db.updateTable("tasks").set((column) => ({ version: column("version", "+", 0) }));
  const [row] = yield* rowsOf(hold.where("task_id", "=", taskId).returning("noticed_at"));
  return row ?? null;
}

export function* deriveDelivery(db: Kysely<Schema>, taskId: string): Steps<void> {
  const rows = yield* rowsOf(
    db
      .selectFrom("task_outbox")
      .select("status")
      .where("task_id", "=", taskId)
      .where("kind", "=", "terminal"),
  );
  const found = new Set<string>(rows.map(({ status }) => status));
  const delivery = WORST_FIRST.find((each) => found.has(each)) ?? "not_applicable";
  yield* countOf(
    db.updateTable("tasks").set({ delivery }).where("task_id", "=", taskId).where(ended(delivery)),
  );
}

function ended(delivery: TaskDelivery): RawBuilder<boolean> {
  return sql<boolean>`ended_at is not null and delivery <> ${delivery}`;
}

function later(words: Words, ms: number): RawBuilder<number> {
  return sql<number>`${words.now()} + ${Math.ceil(ms)}`;
}
