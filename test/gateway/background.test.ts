import { afterEach, beforeEach, expect, test } from "vitest";
import { BadInput, SupervisorClosed } from "../../src/errors.js";
import { Background, type BackgroundParts } from "../../src/gateway/work/background.js";
import { TaskTail } from "../../src/gateway/work/task-tail.js";
import { keyOfRun } from "../../src/tasks/key.js";
import { taskHouse, type TaskHouse } from "../tasks/house.js";

let house: TaskHouse;
let background: Background;
beforeEach(async () => {
  house = await taskHouse();
  const { store, tasks } = house;
  const nothing = { run: () => null, getRun: async () => null };
  const parts = { store, tasks, tail: new TaskTail(store), supervisor: nothing, problem: () => undefined };
  background = new Background(parts as unknown as BackgroundParts);
});
afterEach(async () => {
  await background[Symbol.asyncDispose]();
  await house[Symbol.asyncDispose]();
});

const runId = "run_000000000000";
const input = { runtime: "exec", key: keyOfRun(runId), text: "build", runId } as const;
const statusNow = async (): Promise<string | undefined> =>
  (await house.store.getTaskByKey(input.key))?.status;

test("work that a stopping gateway turns away can be asked for again: its task has not ended", async () => {
  const stops = new SupervisorClosed("in_1", "its gateway stops");
  await expect(background.give(input, () => Promise.reject(stops))).rejects.toBe(stops);
  expect(await statusNow()).toBe("queued");
  expect(await background.give(input, async () => "begun")).toBe("begun");
});

test("work that cannot be begun has failed, and is not begun under that name", async () => {
  const wrong = new BadInput("env", "that cannot be");
  await expect(background.give(input, () => Promise.reject(wrong))).rejects.toBe(wrong);
  expect(await statusNow()).toBe("failed");
  await expect(background.give(input, async () => "begun")).rejects.toMatchObject({ code: "TASK_REFUSED" });
});
