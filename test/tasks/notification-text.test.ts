import { expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput } from "../../src/errors.js";
import { END_REASONS } from "../../src/model/enums.js";
import type { TaskRecord } from "../../src/model/task.js";
import { newRunRecord } from "../../src/store/runs/apply-change.js";
import { nextAttempt } from "../../src/tasks/delivery-attempt.js";
import {
  endNotification,
  markRepeated,
  notificationText,
  stateNotification,
} from "../../src/tasks/notification-text.js";
import { defaultNotifierLimits } from "../../src/tasks/notifier.js";
import { outcomeOfRun, taskStatusOfExit } from "../../src/tasks/outcome.js";
import {
  defaultNotifyPolicy,
  newTask as makeTask,
  taskKeyOfCaller,
  taskKeyOfRun,
} from "../../src/tasks/tasks.js";
import { EXITED, newRun } from "../support/store/run-samples.js";
import { newTask, SUCCEEDED } from "../support/store/task-samples.js";

const record = (change: Partial<TaskRecord> = {}): TaskRecord => ({
  ...newTask({ label: "build" }),
  seq: 1,
  version: 1,
  ...change,
});

test("a notification names the task, its state and its result", () => {
  const texts: readonly (readonly [Partial<TaskRecord>, string])[] = [
    [SUCCEEDED, "Task “build” succeeded: all built"],
    [{ ...SUCCEEDED, summary: null }, "Task “build” succeeded"],
    [{ ...SUCCEEDED, outcome: "blocked", summary: "which key?" }, "Task “build” is blocked: which key?"],
    [{ status: "failed", error: "it exited with code 3" }, "Task “build” failed: it exited with code 3"],
    [{ status: "timed_out", error: "too long", summary: "half" }, "Task “build” timed out: too long\nhalf"],
    [{ status: "cancelled" }, "Task “build” was cancelled"],
    [{ status: "lost" }, "Task “build” was lost"],
  ];
  for (const [change, text] of texts) expect(notificationText(record(change), null)).toBe(text);
  const running = record({ status: "running", progress: "2 of 3" });
  expect(notificationText(running, { type: "started" })).toBe("Task “build” has started");
  expect(notificationText(running, { type: "progress" })).toBe("Task “build” is running: 2 of 3");
});

test("the notification of a command has the last lines of its output", () => {
  const summary = `${"step\n".repeat(15)}\n2 warnings\n\n12 files\nin 3 s`;
  const done = record({ ...SUCCEEDED, runtime: "exec", summary });
  expect(notificationText(done, null)).toBe("Task “build” succeeded: 2 warnings\n12 files\nin 3 s");
  expect(notificationText({ ...done, runtime: "acp", summary: "one\ntwo\nthree\nfour" }, null)).toBe(
    "Task “build” succeeded: one\ntwo\nthree\nfour",
  );
});

test("hostile text is sanitized and long text truncated", () => {
  const { text } = endNotification(
    record({
      ...SUCCEEDED,
      label: "\x1b]0;owned\x07x\nTask “other” failed\u202e",
      summary: `\x1b[2J${"\u{1F600}".repeat(5_000)}`,
    }),
  );
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\u202e]/);
  expect(text.split("\n")).toHaveLength(1);
  expect(text.length).toBeLessThan(defaults.taskNoticeChars + defaults.taskLabelChars + 50);
  expect(text).not.toMatch(/\p{Cs}/u);
});

test("a notification keeps its id and is marked when it may be a repeat", () => {
  const task = record(SUCCEEDED);
  expect(endNotification(task)).toEqual(endNotification(task));
  expect(endNotification(task).id).toBe(`task-terminal:${task.taskId}`);
  expect(stateNotification(record({ status: "running" }), 7, 1, { type: "started" })).toMatchObject({
    id: expect.stringMatching(/^task-state:task_.*:7$/) as string,
    kind: "state",
  });
  const again = markRepeated(endNotification(task));
  expect(again).toMatchObject({ id: endNotification(task).id, repeat: true });
  expect(again.text).toBe("(again) Task “build” succeeded: all built");
});

test("the status of a task follows the end of its run", () => {
  const of = (reason: (typeof END_REASONS)[number], code: number | null = null) =>
    taskStatusOfExit({ reason, code });
  expect(of("exit", 0)).toBe("succeeded");
  expect(of("exit", 3)).toBe("failed");
  expect(of("exit")).toBe("failed");
  expect(
    Object.fromEntries(
      END_REASONS.filter((each) => each !== "exit").map((reason) => [reason, of(reason, 0)]),
    ),
  ).toEqual({
    signal: "failed",
    "spawn-error": "failed",
    "manual-cancel": "cancelled",
    "overall-timeout": "timed_out",
    "no-output-timeout": "timed_out",
    "ownership-escape": "failed",
    "owner-lost": "lost",
    lost: "lost",
    shutdown: "cancelled",
  });
  const run = newRunRecord(newRun(), 0);
  expect(outcomeOfRun(run, null)).toBeNull();
  const ended = { ...run, state: "exited", endedAt: 77, exit: { ...EXITED.exit, code: 0 } } as const;
  expect(outcomeOfRun(ended, "42")).toMatchObject({
    status: "succeeded",
    summary: "42",
    error: null,
    at: 77,
  });
  for (const reason of END_REASONS) {
    const finish = outcomeOfRun({ ...ended, exit: { ...EXITED.exit, reason, code: 1, detail: null } }, null);
    expect(finish?.error, reason).not.toBe("");
    expect(finish?.startedAt, reason).not.toBeNull();
  }
});

test("pauses double from 15 s to 5 min, a little longer each, for 30 min in all", () => {
  const pauses = (spread: (ms: number) => number): number[] => {
    const all: number[] = [];
    for (let spentMs = 0; ;) {
      const next = nextAttempt(
        { spentMs, tookMs: 0, permanent: false, retryAfterMs: null },
        defaultNotifierLimits,
        spread,
      );
      if (next === null) return all;
      all.push(next.inMs);
      ({ spentMs } = next);
    }
  };
  expect(pauses((ms) => ms).map((ms) => ms / 1_000)).toEqual([15, 30, 60, 120, 240, 300, 300, 300, 300]);
  const longer = pauses((ms) => ms / 2);
  expect(longer[0]).toBe(18_750);
  expect(longer.reduce((sum, ms) => sum + ms)).toBeLessThanOrEqual(defaults.deliveryInAllMs);
  const asked = { spentMs: 0, tookMs: 5, permanent: false, retryAfterMs: 40_000 };
  expect(nextAttempt(asked, defaultNotifierLimits, (ms) => ms)).toEqual({ inMs: 40_000, spentMs: 40_005 });
  // A longer delay than is left allows one last attempt.
  const last = nextAttempt({ ...asked, retryAfterMs: 86_400_000 }, defaultNotifierLimits, (ms) => ms);
  expect(last).toEqual({ inMs: defaults.deliveryInAllMs - 5, spentMs: defaults.deliveryInAllMs });
  expect(
    nextAttempt({ ...asked, spentMs: defaults.deliveryInAllMs }, defaultNotifierLimits, (ms) => ms),
  ).toBeNull();
  expect(nextAttempt({ ...asked, permanent: true }, defaultNotifierLimits, (ms) => ms)).toBeNull();
});

test("labels, keys and heartbeats are validated, and each runtime has a default policy", () => {
  expect(
    ["acp", "subagent", "exec", "external"].map((runtime) => defaultNotifyPolicy(runtime as "acp")),
  ).toEqual(["done_only", "done_only", "silent", "done_only"]);
  const input = { runtime: "external", key: null, text: "first\nsecond" } as const;
  expect(makeTask(input, 1)).toMatchObject({
    label: "first",
    delivery: "not_applicable",
    policy: "done_only",
  });
  expect(() => makeTask({ ...input, text: " \n " }, 1)).toThrow(BadInput);
  for (const heartbeatMs of [0, -1, Number.NaN, 1e12])
    expect(() => makeTask({ ...input, heartbeatMs }, 1)).toThrow(BadInput);
  expect(() => taskKeyOfCaller(null, "")).toThrow(BadInput);
  expect(() => taskKeyOfCaller(null, "x".repeat(201))).toThrow(BadInput);
  // The keys of callers and runs are distinct.
  const keys = [
    taskKeyOfCaller("ses_a", "k"),
    taskKeyOfCaller("ses_b", "k"),
    taskKeyOfCaller(null, "k"),
    taskKeyOfRun("k"),
  ];
  expect(new Set(keys).size).toBe(4);
});
