import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { taskKeyOfCaller, Tasks } from "../../src/tasks/tasks.js";
import { openTaskRegistry, SUCCEEDED_FINISH, type TaskRegistry } from "../support/task-registry.js";

let registry: TaskRegistry;
beforeEach(async () => {
  registry = await openTaskRegistry();
});
afterEach(() => registry[Symbol.asyncDispose]());

test("a task is recorded before its work, once per key, and the first record stays", async () => {
  const key = taskKeyOfCaller("ses_a", "nightly");
  const input = { runtime: "external", key, text: "nightly build" } as const;
  const first = await registry.tasks.create(input);
  expect(first).toMatchObject({ created: true, task: { status: "queued", label: "nightly build", seq: 1 } });
  expect(await registry.tasks.create({ ...input, text: "else" })).toEqual({ ...first, created: false });
  const other = await registry.tasks.create({ ...input, key: taskKeyOfCaller("ses_b", "nightly") });
  expect(other.created).toBe(true);
  expect(await registry.store.listTaskEvents(first.task.taskId)).toMatchObject([{ type: "created" }]);
});

test("of concurrent ends one wins, and the others are refused and recorded", async () => {
  await using second = await openSqliteStore({ path: registry.path });
  const others = new Tasks({ store: second });
  const { taskId } = await registry.startTask();
  const ends = (["succeeded", "failed", "cancelled", "lost", "timed_out"] as const).flatMap((status) => [
    registry.tasks.apply(taskId, { ...SUCCEEDED_FINISH, status, at: 5 }),
    others.apply(taskId, { ...SUCCEEDED_FINISH, status, at: 5 }),
  ]);
  const told = await Promise.all(ends);
  expect(told.filter((each) => each?.kind === "changed")).toHaveLength(1);
  // A repeated end has no effect.
  expect(told.filter((each) => each?.kind === "same")).toHaveLength(1);
  const refused = told.filter((each) => each?.kind === "refused");
  expect(refused).toHaveLength(8);
  expect(new Set(refused.map((each) => each?.kind === "refused" && each.why))).toEqual(new Set(["ended"]));
  const types = (await registry.store.listTaskEvents(taskId)).map(({ type }) => type);
  expect(types.filter((type) => type === "ended")).toHaveLength(1);
  expect(types.filter((type) => type === "refused")).toHaveLength(8);
  expect(await registry.store.listOutbox({ taskId })).toHaveLength(1);
  expect(registry.hintCount()).toBeLessThanOrEqual(1);
});

test("concurrent progress is complete in the history", async () => {
  const { taskId } = await registry.startTask();
  const words = Array.from({ length: 10 }, (_, n) => `step ${n}`);
  await Promise.all(words.map((text) => registry.tasks.apply(taskId, { type: "progress", at: 5, text })));
  const said = (await registry.store.listTaskEvents(taskId)).flatMap(({ type, data }) =>
    type === "progress" ? [data["text"]] : [],
  );
  expect(new Set(said)).toEqual(new Set(words));
  expect(said).toHaveLength(words.length);
  expect((await registry.store.getTask(taskId))?.progress).toBe(said.at(-1));
});

test("an event for a missing task or another version has no effect", async () => {
  expect(await registry.tasks.apply("task_none", SUCCEEDED_FINISH)).toBeNull();
  const { taskId, version } = await registry.startTask();
  await registry.tasks.apply(taskId, { type: "heartbeat", at: Date.now() });
  expect(await registry.tasks.apply(taskId, { ...SUCCEEDED_FINISH, status: "lost" }, version)).toMatchObject({
    kind: "same",
    task: { status: "running" },
  });
});

test("the end of a task adds a notification, and a silent policy removes unsent ones", async () => {
  const { taskId } = await registry.finishTask();
  expect(registry.hintCount()).toBe(1);
  expect(await registry.store.listOutbox({ taskId })).toMatchObject([
    {
      status: "pending",
      notification: { id: `task-terminal:${taskId}`, text: "Task “build” succeeded: all built" },
    },
  ]);
  const lively = await registry.startTask({ policy: "state_changes" });
  expect(await registry.store.listOutbox({ taskId: lively.taskId })).toHaveLength(1);
  await registry.tasks.apply(lively.taskId, { type: "policy", at: 5, policy: "silent", actor: "ada" });
  expect(await registry.store.listOutbox({ taskId: lively.taskId })).toEqual([]);
});
