import { type Compilable, type Kysely, type RawBuilder, sql } from "kysely";
import { newOutboxEntry, type NewOutboxEntry, targetKey } from "../../model/outbox.js";
import { outboxTable, type Schema } from "../schema.js";
import { countChanged, type SqlDialect, type Steps } from "../sql/engine.js";
import { isPending, nowPlus } from "./conditions.js";

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
