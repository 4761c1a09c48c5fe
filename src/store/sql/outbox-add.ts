import { sql } from "kysely";
import type { Compilable, Kysely, RawBuilder } from "kysely";
import type { Schema } from "../schema.js";
import { outboxKey, targetKey } from "../task-record.js";
import type { NewOutboxEntry } from "../task-record.js";
import type { Words } from "./engine.js";
import { later, pending } from "./outbox-states.js";
import { countOf, type Steps } from "./steps.js";

type Replaced = Pick<Schema["task_outbox"], "target_key" | "due_at" | "attempts">;

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
