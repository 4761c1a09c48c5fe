import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { acknowledgeReadMessages } from "../../../src/gateway/background/read-receipts.js";
import { type NotifyRequest, resolveTargets } from "../../../src/gateway/background/notification-targets.js";
import { findCurrentTask } from "../../../src/gateway/background/parent-session-and-task.js";
import type { NotificationTarget } from "../../../src/model/outbox.js";
import { SessionHistory } from "../../../src/sessions/messages-and-inbox.js";
import { newSession } from "../../support/store/session-samples.js";
import { openTaskRegistry } from "../../support/task-registry.js";

test("a new task of a session is a child of the session's current task, also after many others", async () => {
  await using registry = await openTaskRegistry();
  const { session } = await registry.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const asks = { requester, requested: {}, mode: "run", parentSessionId: session.id } as const;
  const deps = { store: registry.store, channels: {}, notify: { deliver: "user" } } as const;
  expect(await findCurrentTask(registry.store, requester)).toBeNull();
  const own = await registry.startTask({ childSessionId: session.id });
  registry.setNow(own.createdAt + 1);
  for (let n = 0; n < 101; n += 1) await registry.startTask(await resolveTargets(deps, asks));
  expect(await findCurrentTask(registry.store, requester)).toBe(own.taskId);
  expect(await findCurrentTask(registry.store, { kind: "operator", actor: "operator" })).toBeNull();
});

test("a request that names the receiver of the end is notified of it, also for a command", async () => {
  await using registry = await openTaskRegistry();
  const { session } = await registry.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const deps = { store: registry.store, channels: {}, notify: { deliver: "user" } } as const;
  const policyOf = async (requested: NotifyRequest) => {
    const asks = { requester, requested, mode: "interactive", parentSessionId: null } as const;
    const started = await registry.startTask({
      ...(await resolveTargets(deps, asks)),
      runtime: "exec",
    });
    return started.policy;
  };
  expect(await policyOf({ background: true })).toBe("silent");
  expect(await policyOf({ background: true, deliver: "wake" })).toBe("done_only");
  expect(await policyOf({ background: true, deliver: "wake", notify: "silent" })).toBe("silent");
});

test("the current task of a session is its running turn, otherwise its first queued turn", async () => {
  await using registry = await openTaskRegistry();
  const { session } = await registry.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const now = Date.now();
  const turn = async (at: number): Promise<string> => {
    registry.setNow(now + at);
    const turns = { runtime: "acp", key: null, text: "turn", childSessionId: session.id } as const;
    return (await registry.tasks.create(turns)).task.taskId;
  };
  const [first, second] = [await turn(1), await turn(2)];
  expect(await findCurrentTask(registry.store, requester)).toBe(first);
  await registry.tasks.apply(second, { type: "start", at: now + 3 });
  await turn(4);
  expect(await findCurrentTask(registry.store, requester)).toBe(second);
});

test("many unread messages do not delay the mark on messages of closed sessions", async () => {
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
