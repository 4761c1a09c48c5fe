import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { TaskRecord } from "../../src/model/task.js";
import { auditTask } from "../../src/tasks/audit.js";
import { planMaintenance, type WorkStatus } from "../../src/tasks/plan-maintenance.js";
import { auditAllTasks, ObservationWindow, sweepTasks } from "../../src/tasks/maintenance-pass.js";
import { AT } from "../support/store/session-samples.js";
import { newTask, SUCCEEDED } from "../support/store/task-samples.js";
import { openTaskRegistry, SUCCEEDED_FINISH, type TaskRegistry } from "../support/task-registry.js";

const NOW = AT + 20 * 86_400_000;
const MIN = 60_000;
const STALL = defaults.taskStallMs;

const running = (change: Partial<TaskRecord> = {}): TaskRecord => ({
  ...newTask({ status: "running", createdAt: NOW - MIN, startedAt: NOW - MIN, lastEventAt: NOW - MIN }),
  seq: 2,
  version: 2,
  ...change,
});
const done = (change: Partial<TaskRecord> = {}): TaskRecord =>
  running({ ...SUCCEEDED, delivery: "delivered", createdAt: 0, cleanupAfter: NOW - 1, ...change });

const alive: WorkStatus = { state: "alive", activeAt: null };
const gone: WorkStatus = { state: "gone" };
const unknown: WorkStatus = { state: "unknown" };
const over: WorkStatus = { state: "ended", finish: SUCCEEDED_FINISH };

describe("the maintenance of a task", () => {
  const told = (event: object): object => ({ act: "tell", event });
  const missing = running({ missingSince: NOW - defaults.taskLostMs });
  const cases: Readonly<Record<string, readonly [TaskRecord, WorkStatus, object | null]>> = {
    "its run is alive": [running(), alive, null],
    "its run has ended": [running(), over, told(SUCCEEDED_FINISH)],
    "its work is unknown for long": [running({ lastEventAt: 0 }), unknown, null],
    "its work was missing and is unknown now": [missing, unknown, null],
    "its work is gone: recorded as missing": [
      running({ lastEventAt: 0 }),
      gone,
      told({ type: "missing", at: NOW }),
    ],
    "its work is not recorded yet": [
      running({ status: "queued", startedAt: null, createdAt: NOW - 1 }),
      gone,
      null,
    ],
    "its work was never recorded": [
      running({ status: "queued", startedAt: null }),
      gone,
      told({ type: "missing", at: NOW }),
    ],
    "its work is missing, not for long enough": [
      running({ missingSince: NOW - defaults.taskLostMs + 1 }),
      gone,
      null,
    ],
    "its work is missing for five minutes": [missing, gone, told({ type: "finish", status: "lost" })],
    "its missing work was found": [missing, alive, told({ type: "found" })],
    "its missing work has ended": [missing, over, told(SUCCEEDED_FINISH)],
    "it is active without an event for long": [
      running({ lastEventAt: NOW - 20 * MIN }),
      { state: "alive", activeAt: NOW - 1 },
      told({ type: "heartbeat", at: NOW - 1 }),
    ],
    "it has started without an event": [
      running({ status: "queued", startedAt: null }),
      { state: "alive", activeAt: null, startedAt: NOW - 5 },
      told({ type: "start", at: NOW - 5 }),
    ],
    "it is queued": [
      running({ status: "queued", startedAt: null, lastEventAt: 0 }),
      { state: "alive", activeAt: null, startedAt: null },
      null,
    ],
    "it is silent for a short time": [
      running({ lastEventAt: NOW - STALL + 1 }),
      { state: "alive", activeAt: NOW - STALL + 1 },
      null,
    ],
    "it is silent for long: one stall": [
      running({ lastEventAt: NOW - 2 * STALL }),
      { state: "alive", activeAt: NOW - 2 * STALL },
      told({ type: "stall", at: NOW, silentMs: 2 * STALL }),
    ],
    "it is still silent after a stall": [
      running({ lastEventAt: NOW - 2 * STALL, stalledAt: NOW - STALL }),
      { state: "alive", activeAt: NOW - 2 * STALL },
      null,
    ],
    "it is active again after a stall": [
      running({ lastEventAt: NOW - 2 * STALL, stalledAt: NOW - STALL }),
      { state: "alive", activeAt: NOW - 1 },
      told({ type: "heartbeat", at: NOW - 1 }),
    ],
    "its heartbeat is not due yet": [running({ heartbeatMs: 2 * MIN }), unknown, null],
    "its heartbeat is missing": [running({ heartbeatMs: 1_000 }), unknown, told({ type: "missing" })],
    "its heartbeat is missing, but its run is alive": [running({ heartbeatMs: 1_000 }), alive, null],
    "its heartbeat is missing for five minutes": [
      { ...missing, heartbeatMs: 1_000 },
      unknown,
      told({ type: "finish", status: "lost" }),
    ],
    "it has ended and is old": [done(), unknown, { act: "forget" }],
    "it has ended and is not old": [done({ cleanupAfter: NOW }), unknown, null],
    "it is old with a pending notification": [done({ delivery: "pending" }), unknown, null],
    "it is old with a failed notification": [done({ delivery: "failed" }), unknown, { act: "forget" }],
    "it has no deletion time": [
      done({ cleanupAfter: null, endedAt: 5 }),
      unknown,
      { act: "date", cleanupAfter: 5 + defaults.taskKeptMs },
    ],
  };
  for (const [name, [task, backing, wanted]] of Object.entries(cases))
    test(name, () => {
      const found = planMaintenance(task, backing, NOW);
      if (wanted === null) expect(found).toBeNull();
      else expect(found).toMatchObject({ taskId: task.taskId, version: 2, ...wanted });
    });
});

test("an audit finds the faulty tasks only", () => {
  const codes = (task: TaskRecord): readonly string[] => auditTask(task, NOW).map(({ code }) => code);
  const queued = running({ status: "queued", startedAt: null });
  expect(codes(queued)).toEqual([]);
  const old = { createdAt: 1, startedAt: 2 };
  expect(codes({ ...queued, createdAt: 1, lastEventAt: NOW - 10 * MIN })).toEqual(["stale_queued"]);
  expect(codes(running({ ...old, lastEventAt: NOW - 30 * MIN }))).toEqual(["stale_running"]);
  // However old it is: progress counts.
  expect(codes(running({ ...old, lastEventAt: NOW - 30 * MIN + 1 }))).toEqual([]);
  expect(codes(done())).toEqual([]);
  expect(codes(done({ status: "lost" }))).toEqual(["lost"]);
  expect(codes(done({ delivery: "failed" }))).toEqual(["delivery_failed"]);
  expect(codes(done({ delivery: "parent_missing", cleanupAfter: null }))).toEqual([
    "delivery_failed",
    "missing_cleanup",
  ]);
  expect(codes(done({ startedAt: 5, endedAt: 4 }))).toEqual(["inconsistent_timestamps"]);
  expect(codes(running({ lastEventAt: 1 }))).toContain("inconsistent_timestamps");
  expect(codes(running({ lastEventAt: NOW + 2 * MIN }))).toEqual(["inconsistent_timestamps"]);
  expect(auditTask(done({ status: "lost", error: null }), NOW)[0]?.detail).not.toBe("");
});

describe("a sweep", () => {
  let registry: TaskRegistry;
  beforeEach(async () => {
    registry = await openTaskRegistry();
    registry.setNow(NOW);
  });
  afterEach(() => registry[Symbol.asyncDispose]());

  const swept = (
    backings: Readonly<Record<string, WorkStatus>>,
    at: number,
    apply: boolean,
    thorough = false,
  ) =>
    sweepTasks({
      ...registry,
      apply,
      thorough,
      now: () => at,
      workStatusOf: async ({ taskId }) => backings[taskId] ?? unknown,
    });
  const statusOf = async ({ taskId }: TaskRecord): Promise<unknown> =>
    (await registry.store.getTask(taskId))?.status ?? "forgotten";

  test("a dry run changes nothing, a sweep makes exactly the planned changes, and a second one has none", async () => {
    const [ended, lost, fine] = [
      await registry.startTask(),
      await registry.startTask(),
      await registry.startTask(),
    ];
    const old = await registry.finishTask();
    const [entry] = await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9 });
    await registry.store.settleOutbox(entry ?? expect.fail("none"), {
      status: "delivered",
      receipt: null,
      at: NOW,
    });
    const backings = { [ended.taskId]: over, [lost.taskId]: gone, [fine.taskId]: alive };
    const all = async (): Promise<unknown> => [
      await registry.store.listTasks({ limit: 99 }),
      await registry.store.listOutbox({}),
    ];
    for (const at of [NOW + MIN, NOW + MIN + defaults.taskLostMs, NOW + defaults.taskKeptMs + 1]) {
      const before = await all();
      const shown = await swept(backings, at, false);
      expect(await all()).toEqual(before);
      expect(await swept(backings, at, true)).toEqual(shown);
      expect(await swept(backings, at, false)).toEqual([]);
    }
    expect(await Promise.all([ended, lost, fine, old].map(statusOf))).toEqual([
      "succeeded",
      "lost",
      "running",
      "forgotten",
    ]);
    // Each end was put in the outbox, once.
    expect((await registry.store.listOutbox({})).map(({ taskId }) => taskId).toSorted()).toEqual(
      [ended.taskId, lost.taskId].toSorted(),
    );
  });

  test("a task with an event during the sweep is not lost", async () => {
    const task = await registry.startTask();
    await swept({ [task.taskId]: gone }, NOW + MIN, true);
    await sweepTasks({
      ...registry,
      apply: true,
      now: () => NOW + MIN + defaults.taskLostMs,
      workStatusOf: async ({ taskId }) => {
        await registry.tasks.apply(taskId, { type: "heartbeat", at: NOW + MIN + defaults.taskLostMs });
        return gone;
      },
    });
    expect(await statusOf(task)).toBe("running");
  });

  test("after a restart, a sleep or a clock change, the time until a task is lost starts anew", async () => {
    const task = await registry.startTask({ runtime: "external", heartbeatMs: MIN });
    let at = NOW + 2 * MIN;
    const minutes = async (watch: ObservationWindow, count: number): Promise<void> => {
      for (let n = 0; n < count; n += 1) {
        await sweepTasks({
          ...registry,
          apply: true,
          now: () => at,
          window: watch,
          workStatusOf: async () => unknown,
        });
        at += MIN;
      }
    };
    const first = new ObservationWindow();
    await minutes(first, 3);
    expect((await registry.store.getTask(task.taskId))?.missingSince).toBe(NOW + 2 * MIN);
    // The host sleeps, then the gateway is down: the work could not report anything.
    at += 60 * MIN;
    await minutes(first, 5);
    expect(await statusOf(task)).toBe("running");
    at += 60 * MIN;
    const second = new ObservationWindow();
    await minutes(second, 5);
    expect(await statusOf(task)).toBe("running");
    await minutes(second, 1);
    expect(await statusOf(task)).toBe("lost");
  });

  test("after a gap in the observation, the time until a stall starts anew", async () => {
    const task = await registry.startTask();
    const silent: WorkStatus = { state: "alive", activeAt: NOW };
    const watch = new ObservationWindow();
    let at = NOW + MIN;
    const minutes = async (count: number): Promise<unknown> => {
      for (let n = 0; n < count; n += 1) {
        await sweepTasks({
          ...registry,
          apply: true,
          now: () => at,
          window: watch,
          workStatusOf: async () => silent,
        });
        at += MIN;
      }
      return (await registry.store.getTask(task.taskId))?.stalledAt;
    };
    expect(await minutes(1)).toBeNull();
    // The host sleeps, and the command with it.
    at += 60 * MIN;
    const woken = at;
    expect(await minutes(STALL / MIN)).toBeNull();
    expect(await minutes(1)).toBe(woken + STALL);
  });

  test("a thorough sweep sets missing deletion times, and an audit reads all pages", async () => {
    const { taskId } = await registry.finishTask();
    const db = new DatabaseSync(registry.path);
    db.exec("update tasks set cleanup_after = null");
    const copies = `with recursive n (i) as (select 1 union all select i + 1 from n where i < 510)
      insert into tasks select 'task_' || i, null, runtime, kind, owner_session_id, child_session_id, parent_task_id, agent_id,
      run_id, turn_id, label, task_text, status, delivery, policy, targets, created_at - i, started_at, ended_at, last_event_at,
      progress, summary, outcome, error, cleanup_after, heartbeat_ms, missing_since, stalled_at, noticed_at, last_seq, version, origin
      from tasks, n`;
    db.exec(copies);
    db.close();
    expect(await auditAllTasks(registry.store, NOW)).toHaveLength(511);
    expect(await swept({}, NOW, true)).toEqual([]);
    expect(await swept({}, NOW, true, true)).toHaveLength(511);
    expect(await auditAllTasks(registry.store, NOW)).toEqual([]);
    expect((await registry.store.getTask(taskId))?.cleanupAfter).toBe(NOW + defaults.taskKeptMs);
  });
});
