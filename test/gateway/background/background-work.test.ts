import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { BadInput, StoreAway, SupervisorClosed } from "../../../src/errors.js";
import { Background, type BackgroundDeps } from "../../../src/gateway/background/background-work.js";
import { TaskEventFollower } from "../../../src/gateway/monitoring/event-follower.js";
import { isTaskEnded } from "../../../src/model/task.js";
import type { Problem } from "../../../src/supervisor/api.js";
import { taskKeyOfRun, Tasks } from "../../../src/tasks/tasks.js";
import { newRun } from "../../support/store/run-samples.js";
import { PARENT } from "../../support/store/task-samples.js";
import { openTaskRegistry, SUCCEEDED_FINISH, type TaskRegistry } from "../../support/task-registry.js";

let registry: TaskRegistry;
let background: Background;
let problems: Problem[];
const nothing = { run: () => null, getRun: async () => null };
function backgroundOf(parts: object = {}): Background {
  const { store, tasks } = registry;
  const problem = (each: Problem): void => void problems.push(each);
  const all = {
    store,
    tasks,
    tail: new TaskEventFollower(store),
    supervisor: nothing,
    onProblem: problem,
    ...parts,
  };
  return new Background(all as unknown as BackgroundDeps);
}
beforeEach(async () => {
  registry = await openTaskRegistry();
  problems = [];
  background = backgroundOf();
});
afterEach(async () => {
  await background[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});

const runId = "run_000000000000";
const input = { runtime: "exec", key: taskKeyOfRun(runId), text: "build", runId } as const;
const statusNow = async (): Promise<string | undefined> =>
  (await registry.store.getTaskByKey(input.key))?.status;

test("work that a stopping gateway refuses can be requested again: its task has not ended", async () => {
  const stops = new SupervisorClosed("in_1", "its gateway stops");
  await expect(background.runAsTask(input, () => Promise.reject(stops))).rejects.toBe(stops);
  expect(await statusNow()).toBe("queued");
  expect(await background.runAsTask(input, async () => "begun")).toBe("begun");
});

test("work that cannot start is a failed task, and its id cannot be used again", async () => {
  const wrong = new BadInput("env", "that cannot be");
  await expect(background.runAsTask(input, () => Promise.reject(wrong))).rejects.toBe(wrong);
  expect(await statusNow()).toBe("failed");
  await expect(background.runAsTask(input, async () => "begun")).rejects.toMatchObject({
    code: "TASK_REFUSED",
  });
});

test("work that is requested twice at once and refused once has not failed", async () => {
  const [turnedAway, begun] = [deferred<void>(), deferred<void>()];
  const first = background.runAsTask({ ...input }, async () => {
    begun.resolve();
    await turnedAway.promise;
    return statusNow();
  });
  await begun.promise;
  const busy = new BadInput("run", "it is being begun");
  await expect(background.runAsTask({ ...input }, () => Promise.reject(busy))).rejects.toBe(busy);
  expect(background.isStarting(input)).toBe(true);
  turnedAway.resolve();
  expect(await first).not.toBe("failed");
  expect(background.isStarting(input)).toBe(false);
});

test("a gateway that is killed at any write leaves no waiting requester without a notification", async () => {
  const { store } = registry;
  for (let writes = 0; writes < 3; writes += 1) {
    let left = writes;
    const dying = {
      insertTask: store.insertTask.bind(store),
      getTask: store.getTask.bind(store),
      commitTask: async (...given: Parameters<typeof store.commitTask>) => {
        if (left === 0) throw new Error("killed");
        left -= 1;
        return store.commitTask(...given);
      },
    };
    const killed = backgroundOf({ tasks: new Tasks({ store: dying }) });
    const key = `caller:operator:${writes}`;
    const awaited = new AbortController().signal;
    const start = async (): Promise<void> => {
      const { taskId } = (await store.getTaskByKey(key)) ?? expect.fail("no task");
      await killed.apply(taskId, { ...SUCCEEDED_FINISH, at: Date.now(), startedAt: Date.now() });
    };
    const asked = { runtime: "subagent", key, text: "build", targets: [PARENT] } as const;
    await killed.runAsTask(asked, start, { waiting: awaited }).catch(() => undefined);
    const task = (await store.getTaskByKey(key)) ?? expect.fail("no task");
    expect([writes, task.policy]).toEqual([writes, isTaskEnded(task.status) ? "silent" : "done_only"]);
    await killed[Symbol.asyncDispose]();
  }
});

test("a task whose run cannot be read is reported and left unchanged, and the sweep continues", async () => {
  const { tasks, store } = registry;
  const getRun = async (id: string): Promise<null> => {
    if (id === "run_odd") throw new Error("its record is odd");
    return null;
  };
  const ids = ["run_1", "run_odd", "run_2"];
  for (const id of ids) {
    const task = { runtime: "exec", key: taskKeyOfRun(id), text: id, runId: id } as const;
    const { task: created } = await tasks.create(task);
    await tasks.apply(created.taskId, { type: "start", at: Date.now(), observed: true });
  }
  const sweeping = backgroundOf({ supervisor: { ...nothing, getRun } });
  await sweeping.maintain(true, false);
  const seen = await Promise.all(ids.map((id) => store.getTaskByKey(taskKeyOfRun(id))));
  expect(seen.map((task) => task?.missingSince !== null)).toEqual([true, false, true]);
  expect(problems).toMatchObject([
    {
      runId: "run_odd",
      message: `the state of the work of task ${seen[1]?.taskId} could not be read; retrying`,
    },
  ]);
  const away = new StoreAway("/nowhere", "it is away");
  const without = backgroundOf({ supervisor: { ...nothing, getRun: () => Promise.reject(away) } });
  await expect(without.maintain(true, false)).rejects.toBe(away);
  expect(problems).toHaveLength(1);
});

/** A supervisor that has taken these over, and notes who ends them. */
function holding(runs: readonly object[]): { readonly supervisor: object; readonly stopped: unknown[] } {
  const stopped: unknown[] = [];
  const of = (id: string) => runs.find((run) => "runId" in run && run.runId === id) ?? null;
  const run = (id: string) => {
    const cancel = async ({ actor }: { readonly actor: string }) => void stopped.push([id, actor]);
    const never = () => new Promise<never>(() => {});
    return of(id) === null ? null : { runId: id, state: "running", cancel, wait: never, changed: never };
  };
  return { supervisor: { run, getRun: async (id: string) => of(id) }, stopped };
}

test("a recovered plain command that continues gets one task for its session; no other recovered run does", async () => {
  const plain = {
    ...{ ...newRun(), backendId: null, imported: null, hiddenAt: null },
    ...{ state: "running", startedAt: null, lastOutputAt: null },
  };
  const { policy, imported } = newRun();
  const others = [
    { kind: "service" },
    { backendId: "acp" },
    { backendId: "acp-terminal" },
    { backendId: "cli" },
    { backendId: "channel" },
    { imported },
    { hiddenAt: 1 },
    { policy: { ...policy, callerBound: true } },
    { policy: { ...policy, onOrphan: "terminate" } },
  ].map((change, n) => ({ ...plain, ...change, runId: `run_${n}` }));
  const { supervisor } = holding([plain, ...others]);
  const next = backgroundOf({ supervisor, isHere: () => true });
  for (let times = 0; times < 2; times += 1) {
    next.registerRecoveredRuns([plain, ...others]);
    await next.maintain(false, false);
    expect(await registry.store.listTasks({ limit: 99 })).toHaveLength(times);
    await next.maintain(true, false);
  }
  expect(await registry.store.listTasks({ limit: 99 })).toMatchObject([
    {
      ...{ runtime: "exec", runId: plain.runId, key: taskKeyOfRun(plain.runId), text: plain.command },
      ...{ ownerSessionId: "ses_1", agentId: "agent-1", policy: "silent", delivery: "not_applicable" },
    },
  ]);
  expect(problems).toEqual([]);
  await next[Symbol.asyncDispose]();
});

test("a sweep that fails while the store is unreachable is retried", async () => {
  const plain = {
    ...{ ...newRun({ runId }), backendId: null, imported: null, hiddenAt: null },
    ...{ state: "running", startedAt: null, lastOutputAt: null },
  };
  const { supervisor } = holding([plain]);
  const next = backgroundOf({ supervisor, isHere: () => true });
  next.registerRecoveredRuns([plain]);
  vi.spyOn(registry.store, "listTasks").mockRejectedValueOnce(new StoreAway("/nowhere", "it is away"));
  await expect(next.maintain(true, false)).rejects.toMatchObject({ code: "STORE_AWAY" });
  await next.maintain(true, false);
  expect(await registry.store.listTasks({ limit: 99 })).toMatchObject([{ runId, runtime: "exec" }]);
  await next[Symbol.asyncDispose]();
});

test("work that started although its request failed is not a failed task", async () => {
  const { supervisor } = holding([
    { ...newRun({ runId }), state: "running", startedAt: null, lastOutputAt: null },
  ]);
  const beginning = backgroundOf({ supervisor, isHere: () => true });
  const error = new Error("its output cannot be read");
  await expect(beginning.runAsTask(input, () => Promise.reject(error))).rejects.toBe(error);
  expect(await statusNow()).not.toBe("failed");
  await beginning[Symbol.asyncDispose]();
});

test("a recovered run keeps its task; a run whose task was cancelled before its start is stopped", async () => {
  const { tasks, store } = registry;
  const runs = ["run_1", "run_2", "run_3"].map((id) => ({
    ...{ ...newRun({ runId: id }), backendId: null, imported: null, hiddenAt: null },
    ...{ state: "running", startedAt: null, lastOutputAt: null },
  }));
  const { supervisor, stopped } = holding(runs);
  const made = [];
  for (const id of ["run_1", "run_2"])
    made.push(await tasks.create({ runtime: "exec", key: `caller:operator:${id}`, text: id, runId: id }));
  // An agent's turn is not its process.
  made.push(await tasks.create({ runtime: "acp", key: null, text: "ask", runId: "run_3", turnId: "turn_3" }));
  for (const { task } of made.slice(1))
    await tasks.apply(task.taskId, {
      ...SUCCEEDED_FINISH,
      at: Date.now(),
      status: "cancelled",
      actor: "ada",
    });
  const next = backgroundOf({ supervisor, isHere: () => true });
  next.registerRecoveredRuns(runs);
  await next.maintain(true, false);
  await expect.poll(() => stopped, { timeout: 15_000 }).toEqual([["run_2", "ada"]]);
  expect(await store.listTasks({ limit: 99 })).toHaveLength(3);
  expect(problems).toEqual([]);
  await next[Symbol.asyncDispose]();
});

test("work whose task was cancelled while it started is stopped, also if the store was unreachable then", async () => {
  const { tasks, store } = registry;
  let away = false;
  const getTask = store.getTask.bind(store);
  vi.spyOn(store, "getTask").mockImplementation((id) =>
    away ? Promise.reject(new StoreAway("/nowhere", "it is away")) : getTask(id),
  );
  const { supervisor, stopped } = holding([
    { ...newRun({ runId }), state: "running", startedAt: null, lastOutputAt: null },
  ]);
  const beginning = backgroundOf({ supervisor, isHere: () => true });
  await beginning.runAsTask(input, async () => {
    const { taskId } = (await store.getTaskByKey(input.key)) ?? expect.fail("no task");
    await tasks.apply(taskId, { ...SUCCEEDED_FINISH, at: Date.now(), status: "cancelled", actor: "ada" });
    away = true;
  });
  await sleep(0);
  expect(stopped).toEqual([]);
  away = false;
  await beginning.maintain(true, false);
  await expect.poll(() => stopped, { timeout: 15_000 }).toEqual([[runId, "ada"]]);
  await beginning[Symbol.asyncDispose]();
});
