import { type Compilable, type Kysely, type RawBuilder, sql } from "kysely";
import { channelKeyPrefix, type OutboxEntry, type OutboxStatus } from "../../model/outbox.js";
import { outboxTable, type Schema } from "../schema.js";
import { countChanged, fetchRows, type SqlDialect, type Steps } from "../sql/engine.js";
import type { OutboxClaim } from "../tasks/contract.js";

/** A literal, not a parameter, so that the partial indexes are used. */
export function hasStatus(status: OutboxStatus): RawBuilder<boolean> {
  return sql<boolean>`status = ${sql.lit(status)}`;
}

export const isPending = hasStatus("pending");

/** No delay or lease is this long: a time beyond it is from the clock of another boot, and counts as past. */
const HORIZON_MS = 3_600_000;

/** The subquery reads the clock once, not for every row. */
export function isPast(dialect: SqlDialect, column: "due_at" | "lease_until"): RawBuilder<boolean> {
  const [at, now] = [sql.ref(column), dialect.now()];
  return sql<boolean>`(${at} <= (select ${now}) or ${at} > (select ${now}) + ${HORIZON_MS})`;
}

export function nowPlus(dialect: SqlDialect, ms: number): RawBuilder<number> {
  return sql<number>`${dialect.now()} + ${Math.ceil(ms)}`;
}

/**
 * A message about a change that is obsolete: the task has ended, its policy excludes changes, or there is a newer message
 * for the same target. Compared by the number in the key, because the wall clock may have been set back.
 */
export const isSuperseded = sql<boolean>`(kind = 'state' and (exists (
    select 1 from tasks where tasks.task_id = task_outbox.task_id
      and (tasks.ended_at is not null or tasks.policy <> 'state_changes')
  ) or exists (
    select 1 from task_outbox as newer
    where newer.task_id = task_outbox.task_id and newer.kind = 'state' and newer.target_key = task_outbox.target_key
      and (length(newer.entry_key), newer.entry_key) > (length(task_outbox.entry_key), task_outbox.entry_key)
  )))`;

/** Within a transaction. */
export function* claimOutboxEntries(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  { owner, leaseMs, limit, except = [] }: OutboxClaim,
): Steps<readonly OutboxEntry[]> {
  yield* countChanged(dropAbandoned(db, dialect));
  const free = yield* fetchRows(
    db
      .selectFrom("task_outbox")
      .select("entry_key")
      .where(isPending)
      .where(isPast(dialect, "due_at"))
      .where((is) => is.or([is("lease_until", "is", null), isPast(dialect, "lease_until")]))
      .where(isNextInOrder(dialect))
      .where(isNotForChannels(except))
      .orderBy("due_at")
      .limit(limit)
      .modifyEnd(dialect.lockSkipLocked),
  );
  if (free.length === 0) return [];
  const rows = yield* fetchRows(
    db
      .updateTable("task_outbox")
      .set({ lease_owner: owner, lease_until: nowPlus(dialect, leaseMs) })
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
  return rows.map((row) => outboxTable.toRecord(row)).toSorted((one, other) => one.dueAt - other.dueAt);
}

export function* nextOutboxDelay(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  except: readonly string[],
): Steps<number | null> {
  const at = sql<number>`case when lease_until > due_at then lease_until else due_at end`;
  const [row] = yield* fetchRows(
    db
      .selectFrom("task_outbox")
      .select(sql<number | null>`min(${at}) - ${dialect.now()}`.as("ms"))
      .where(isPending)
      .where(isNextInOrder(dialect))
      .where(isNotForChannels(except)),
  );
  const ms = row?.ms ?? null;
  if (ms === null) return null;
  return ms > HORIZON_MS ? 0 : Math.max(0, ms);
}

/** An expired lease without an owner: the message may be sent again. */
const RELEASED = { lease_owner: "", lease_until: 0 };

/** Releases the messages of a sender that is gone. */
export function releaseOutboxEntries(db: Kysely<Schema>, owner: string): Compilable {
  return db.updateTable("task_outbox").set(RELEASED).where("lease_owner", "=", owner);
}

function isNotForChannels(channels: readonly string[]): RawBuilder<boolean> {
  const isOther = channels
    .map(channelKeyPrefix)
    .map((key) => sql`substr(target_key, 1, ${key.length}) <> ${key}`);
  return isOther.length === 0 ? sql<boolean>`1 = 1` : sql<boolean>`(${sql.join(isOther, sql` and `)})`;
}

/** The message about the end waits for a message about a change that is being sent; other messages about changes are obsolete. */
function isNextInOrder(dialect: SqlDialect): RawBuilder<boolean> {
  const now = dialect.now();
  return sql<boolean>`case when kind = 'terminal' then not exists (
    select 1 from task_outbox as other
    where other.task_id = task_outbox.task_id and other.kind = 'state' and other.target_key = task_outbox.target_key
      and other.lease_until > (select ${now}) and other.lease_until <= (select ${now}) + ${HORIZON_MS}
  ) else not ${isSuperseded} end`;
}

/** Deletes superseded messages whose sender is gone. */
function dropAbandoned(db: Kysely<Schema>, dialect: SqlDialect): Compilable {
  const abandoned = db
    .selectFrom("task_outbox")
    .select("entry_key")
    .where("lease_owner", "is not", null)
    .where(isSuperseded)
    .where(isPending)
    .where(isPast(dialect, "lease_until"))
    .modifyEnd(dialect.lockSkipLocked);
  return db.deleteFrom("task_outbox").where("entry_key", "in", abandoned);
}
