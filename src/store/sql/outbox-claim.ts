import { sql } from "kysely";
import type { Compilable, Kysely, RawBuilder } from "kysely";
import type { Schema } from "../schema.js";
import { toOutboxEntry } from "../task-columns.js";
import { channelKey } from "../task-record.js";
import type { OutboxEntry } from "../task-record.js";
import type { OutboxClaim } from "../task-store.js";
import type { Words } from "./engine.js";
import { HORIZON_MS, isOver, later, overtaken, pending } from "./outbox-states.js";
import { countOf, rowsOf, type Steps } from "./steps.js";

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

/** What nobody is sending any more: a lease of nobody's, which is over. */
const LEFT = { lease_owner: "", lease_until: 0 };

/** Whoever had this name is gone. */
export function releaseEntries(db: Kysely<Schema>, owner: string): Compilable {
  return db.updateTable("task_outbox").set(LEFT).where("lease_owner", "=", owner);
}

function notFor(channels: readonly string[]): RawBuilder<boolean> {
  const isOther = channels.map(channelKey).map((key) => sql`substr(target_key, 1, ${key.length}) <> ${key}`);
  return isOther.length === 0 ? sql<boolean>`1 = 1` : sql<boolean>`(${sql.join(isOther, sql` and `)})`;
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

/** Messages that came to nothing, which somebody had begun to send: nobody else will settle anything of such a task. */
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
