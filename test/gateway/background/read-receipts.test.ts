import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { acknowledgeReadMessages } from "../../../src/gateway/background/read-receipts.js";
import { SessionHistory } from "../../../src/sessions/history.js";
import type { NotificationTarget } from "../../../src/model/outbox.js";
import { newSession } from "../../support/store/session-samples.js";
import { openTaskRegistry } from "../../support/task-registry.js";

test("what waits for long, however much, is not in the way of what has nobody to read it any more", async () => {
  await using registry = await openTaskRegistry();
  const { store } = registry;
  const { session } = await store.createSession(newSession());
  const waiting: NotificationTarget = { kind: "session", sessionId: session.id };
  await new SessionHistory(store).send(session.id, "system", {
    text: "done",
    actor: "tasks",
    cause: "waits",
    deliver: "next-turn",
  });
  await registry.finishTask({ targets: [waiting] });
  const lost = await registry.finishTask();
  for (const entry of await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9_000 }))
    await store.settleOutbox(entry, { status: "session_queued", at: 1 });
  const db = new DatabaseSync(registry.path);
  db.exec(`update task_outbox set created_at = 1, notification = json_set(notification, '$.id', 'waits')
    where target_key like '%${session.id}'`);
  db.exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 1200)
    insert into task_outbox select entry_key || i, task_id, target_key, kind, target, notification, status, attempts,
    unheard, spent_ms, created_at, due_at, lease_owner, lease_until, error, receipt, settled_at
    from task_outbox, n where created_at = 1`);
  db.close();
  await acknowledgeReadMessages(store);
  expect(await store.getTask(lost.taskId)).toMatchObject({ delivery: "parent_missing" });
  expect(await store.listOutbox({ statuses: ["session_queued"] })).toHaveLength(1201);
});
