import { DatabaseSync } from "@photostructure/sqlite";
import { join } from "node:path";
import { expect, test } from "vitest";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { userOrigin, taskGateway } from "../../support/gateway/task-gateway.js";

const { stage: fixture, userHeard, shown, told, boss } = taskGateway();

test("an operator can retry or dismiss an undeliverable notification", async () => {
  const { task } = await fixture.client.createTask({
    body: { label: "unheard", origin: { channel: "deaf" } },
  });
  const params = { id: task.taskId };
  await fixture.client.finishTask({ params, body: { status: "succeeded" } });
  await told(task.taskId, "failed");
  const found = async (): Promise<unknown> =>
    (await fixture.client.auditTasks()).findings.filter(({ taskId }) => taskId === task.taskId);
  expect(await found()).toMatchObject([{ code: "delivery_failed" }]);
  expect(await fixture.client.retryTask({ params })).toMatchObject({ messages: 1 });
  await told(task.taskId, "failed");
  const [message] = (await shown(task.taskId)).messages;
  expect(message).toMatchObject({ status: "failed", attempts: 2 });
  expect(message?.error).toContain("has a Telegram chat");
  expect(await fixture.client.dismissTask({ params })).toMatchObject({
    messages: 1,
    task: { delivery: "not_applicable" },
  });
  expect(await fixture.client.dismissTask({ params })).toMatchObject({ messages: 0 });
  expect(await found()).toEqual([]);
});

test("reading changes nothing, for the operator and for sessions", async () => {
  const { client: session } = await boss("boss-8");
  const { run } = await session.exec({ body: { argv: ["sleep", "1000"], background: true } });
  const { task } = await shown(run.runId);
  const everything = (): unknown => {
    using db = new DatabaseSync(join(fixture.home, "store.sqlite"), { readOnly: true });
    const tables = ["tasks", "task_events", "task_outbox", "session_messages", "sessions"];
    return tables.map((table): unknown => db.prepare(`select * from ${table} order by 1, 2`).all());
  };
  const before = everything();
  for (const client of [fixture.client, session])
    for (const id of [task.taskId, run.runId, task.taskId.slice(0, -1)]) {
      await client.listTasks({ query: { status: "running,failed", limit: 3 } });
      await client.getTask({ params: { id } });
      await client.taskEvents({ params: { id } });
    }
  await fixture.client.auditTasks();
  expect((await fixture.client.maintainTasks()).applied).toBe(false);
  expect(everything()).toEqual(before);
  await session.cancelTask({ params: { id: task.taskId } });
  expect(everything()).not.toEqual(before);
});

test("hostile text is stored as text", async () => {
  const hostile = "\u001b[2J\0 \ud800 <b>&\u202e' or 1=1; --";
  const { task } = await fixture.client.createTask({
    body: { label: hostile, text: hostile, origin: userOrigin },
  });
  const params = { id: task.taskId };
  await fixture.client.taskProgress({ params, body: { text: hostile } });
  await fixture.client.finishTask({
    params,
    body: { status: "failed", error: hostile, summary: hostile },
  });
  const { label, progress, error, summary } = await told(task.taskId, "delivered");
  // oxlint-disable-next-line no-control-regex -- what must not be there
  for (const text of [label, progress, error, summary]) expect(text).not.toMatch(/[\0\u001b\u202e\ud800]/);
  expect(label).toContain("<b>&");
  expect(userHeard().filter(({ taskId }) => taskId === task.taskId)).toHaveLength(1);
});

test("a list is read page by page, each task once", async () => {
  for (let count = 0; count < 7; count++)
    await fixture.client.createTask({ body: { label: `task ${count}` } });
  const all = (await fixture.client.listTasks({ query: { limit: 1_000 } })).tasks.map(({ taskId }) => taskId);
  const read: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await fixture.client.listTasks({
      query: { limit: 3, ...(cursor === undefined ? {} : { cursor }) },
    });
    read.push(...page.tasks.map(({ taskId }) => taskId));
    if (page.next === null) break;
    cursor = page.next;
  }
  expect(read).toEqual(all);
  expect(all.length).toBeGreaterThan(3);
  expect(await errorOf(fixture.client.listTasks({ query: { cursor: "x" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
  expect(await errorOf(fixture.client.listTasks({ query: { status: "happy" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
});

test("a session pages through the tasks it may see, and its cursors name no other task", async () => {
  const sessions = await Promise.all(
    ["pager", "stranger"].map((key) => fixture.client.openSession({ body: { key } })),
  );
  const [pager, stranger] = sessions.map(({ token }) => fixture.as(token));
  const own: string[] = [];
  for (let count = 0; count < 3; count++) {
    own.unshift((await pager!.createTask({ body: { label: "own" } })).task.taskId);
    await stranger!.createTask({ body: { label: "of another session" } });
    await fixture.client.createTask({ body: { label: "of the operator" } });
  }
  const read: string[] = [];
  const cursors: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await pager!.listTasks({ query: { limit: 1, ...(cursor === undefined ? {} : { cursor }) } });
    read.push(...page.tasks.map(({ taskId }) => taskId));
    if (page.next === null) break;
    cursors.push(page.next);
    cursor = page.next;
  }
  expect(read).toEqual(own);
  expect(cursors.map((cursor) => cursor.split(".")[1])).toEqual(own.slice(0, -1));
});
