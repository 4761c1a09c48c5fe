import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { keyOfCaller } from "../../src/tasks/key.js";
import { Tasks } from "../../src/tasks/tasks.js";
import { succeeded, taskHouse, type TaskHouse } from "./house.js";

let house: TaskHouse;
beforeEach(async () => {
  house = await taskHouse();
});
afterEach(() => house[Symbol.asyncDispose]());

test("work is recorded before it begins, once for each key, and what was recorded first stands", async () => {
  const key = keyOfCaller("ses_a", "nightly");
  const input = { runtime: "external", key, text: "nightly build" } as const;
  const first = await house.tasks.create(input);
  expect(first).toMatchObject({ created: true, task: { status: "queued", label: "nightly build", seq: 1 } });
  expect(await house.tasks.create({ ...input, text: "else" })).toEqual({ ...first, created: false });
  const other = await house.tasks.create({ ...input, key: keyOfCaller("ses_b", "nightly") });
  expect(other.created).toBe(true);
  expect(await house.store.listTaskEvents(first.task.taskId)).toMatchObject([{ type: "created" }]);
});

test("of many ends at once, through two connections, one wins; the others are refused and noted", async () => {
  await using second = await openSqliteStore({ path: house.path });
  const others = new Tasks({ store: second });
  const { taskId } = await house.begun();
  const ends = (["succeeded", "failed", "cancelled", "lost", "timed_out"] as const).flatMap((status) => [
    house.tasks.tell(taskId, { ...succeeded, status, at: 5 }),
    others.tell(taskId, { ...succeeded, status, at: 5 }),
  ]);
  const told = await Promise.all(ends);
  expect(told.filter((each) => each?.kind === "changed")).toHaveLength(1);
  // The same end, told again, is no mistake.
  expect(told.filter((each) => each?.kind === "same")).toHaveLength(1);
  const refused = told.filter((each) => each?.kind === "refused");
  expect(refused).toHaveLength(8);
  expect(new Set(refused.map((each) => each?.kind === "refused" && each.why))).toEqual(new Set(["ended"]));
  const types = (await house.store.listTaskEvents(taskId)).map(({ type }) => type);
  expect(types.filter((type) => type === "ended")).toHaveLength(1);
  expect(types.filter((type) => type === "refused")).toHaveLength(8);
  expect(await house.store.listOutbox({ taskId })).toHaveLength(1);
  expect(house.hints()).toBeLessThanOrEqual(1);
});

test("progress by two at once loses neither's word from the history", async () => {
  const { taskId } = await house.begun();
  const words = Array.from({ length: 10 }, (_, n) => `step ${n}`);
  await Promise.all(words.map((text) => house.tasks.tell(taskId, { type: "progress", at: 5, text })));
  const said = (await house.store.listTaskEvents(taskId)).flatMap(({ type, data }) =>
    type === "progress" ? [data["text"]] : [],
  );
  expect(new Set(said)).toEqual(new Set(words));
  expect(said).toHaveLength(words.length);
  expect((await house.store.getTask(taskId))?.progress).toBe(said.at(-1));
});

test("of what is not there nothing is said; what was said of another version is not said of this one", async () => {
  expect(await house.tasks.tell("task_none", succeeded)).toBeNull();
  const { taskId, version } = await house.begun();
  await house.tasks.tell(taskId, { type: "heartbeat", at: Date.now() });
  expect(await house.tasks.tell(taskId, { ...succeeded, status: "lost" }, version)).toMatchObject({
    kind: "same",
    task: { status: "running" },
  });
});

test("a message waits in the outbox as soon as a task has ended; another policy takes back what was not sent", async () => {
  const { taskId } = await house.ended();
  expect(house.hints()).toBe(1);
  expect(await house.store.listOutbox({ taskId })).toMatchObject([
    {
      status: "pending",
      notification: { id: `task-terminal:${taskId}`, text: "Task “build” succeeded: all built" },
    },
  ]);
  const lively = await house.begun({ policy: "state_changes" });
  expect(await house.store.listOutbox({ taskId: lively.taskId })).toHaveLength(1);
  await house.tasks.tell(lively.taskId, { type: "policy", at: 5, policy: "silent", actor: "ada" });
  expect(await house.store.listOutbox({ taskId: lively.taskId })).toEqual([]);
});
