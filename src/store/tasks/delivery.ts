import type { TaskDelivery } from "../../model/task.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import type { TaskChange } from "./contract.js";

/** The change replaces unsent messages about earlier changes. */
export function endsOrReplaces({ set = {}, notices = [] }: TaskChange): boolean {
  const ends = set.endedAt !== undefined && set.endedAt !== null;
  return ends || notices.length > 0 || set.policy !== undefined;
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
  { db, statements }: SqlEngine,
  taskId: string,
): Steps<{ readonly noticed_at: number | null } | null> {
  const [row] = yield* fetchRows(
    statements.bind("lock a task", { taskId }, (given) =>
      db
        .updateTable("tasks")
        .set((column) => ({ version: column("version", "+", 0) }))
        .where("task_id", "=", given.taskId)
        .returning("noticed_at"),
    ),
  );
  return row ?? null;
}

export function* deriveDelivery({ db, statements }: SqlEngine, taskId: string): Steps<void> {
  const rows = yield* fetchRows(
    statements.bind("messages about an end", { taskId }, (given) =>
      db
        .selectFrom("task_outbox")
        .select("status")
        .where("task_id", "=", given.taskId)
        .where("kind", "=", "terminal"),
    ),
  );
  const found = new Set<string>(rows.map(({ status }) => status));
  const delivery = WORST_FIRST.find((each) => found.has(each)) ?? "not_applicable";
  yield* countChanged(
    statements.bind("delivery of a task", { taskId, delivery }, (given) =>
      db
        .updateTable("tasks")
        .set({ delivery: given.delivery })
        .where("task_id", "=", given.taskId)
        .where("ended_at", "is not", null)
        .where("delivery", "<>", given.delivery),
    ),
  );
}
