import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { NOTIFY_POLICIES, TASK_STATUSES } from "../../src/model/enums.js";
import { isTaskEnded, type TaskRecord } from "../../src/model/task.js";
import type { TaskChange } from "../../src/store/tasks/contract.js";
import { newTask, type TaskInput } from "../../src/tasks/tasks.js";
import {
  type TaskFinish,
  type TaskInputEvent,
  transition,
  type Transition,
} from "../../src/tasks/transition.js";
import { repetitions } from "../support/scale.js";
import { AT } from "../support/store/session-samples.js";
import { CHAT, PARENT } from "../support/store/task-samples.js";

function task(input: Partial<TaskInput> = {}): TaskRecord {
  const made = newTask({ runtime: "acp", key: null, text: "make all", targets: [PARENT], ...input }, AT);
  return { ...made, seq: 1, version: 1 };
}

function finish(status: TaskFinish["status"], change: Partial<TaskFinish> = {}): TaskFinish {
  const base = { type: "finish", at: AT + 9, outcome: null, summary: null, error: null, actor: "" } as const;
  return { ...base, startedAt: null, status, ...change };
}

const start: TaskInputEvent = { type: "start", at: AT + 1 };
const progress = (text: string, at = AT + 2): TaskInputEvent => ({ type: "progress", at, text });

/** The record as a store writes it. */
function applied(before: TaskRecord, { set = {}, events = [] }: TaskChange): TaskRecord {
  return { ...before, ...set, seq: before.seq + events.length, version: before.version + 1 };
}

function changeOf(step: Transition): TaskChange {
  return step.kind === "changed" ? step.change : expect.fail(step.kind);
}

function after(before: TaskRecord, ...events: readonly TaskInputEvent[]): TaskRecord {
  return events.reduce((now, each) => applied(now, changeOf(transition(now, each))), before);
}

const kindOf = (before: TaskRecord, event: TaskInputEvent): string => {
  const step = transition(before, event);
  return step.kind === "refused" ? step.why : step.kind;
};

describe("the events of a task", () => {
  const queued = task();
  const running = after(queued, start);
  const done = after(running, finish("succeeded"));
  const all: readonly (readonly [TaskInputEvent, string, string, string])[] = [
    [start, "changed", "same", "ended"],
    [progress("1 of 3"), "changed", "changed", "ended"],
    [{ type: "start", at: AT, observed: true }, "changed", "same", "same"],
    [{ type: "progress", at: AT, text: "1 of 3", observed: true }, "changed", "changed", "same"],
    [{ type: "heartbeat", at: AT }, "changed", "changed", "same"],
    [{ type: "stall", at: AT, silentMs: 1 }, "not-started", "changed", "ended"],
    [{ type: "policy", at: AT, policy: "silent", actor: "ada" }, "changed", "changed", "ended"],
    [{ type: "link", at: AT, to: { runId: "run_1" } }, "changed", "changed", "ended"],
    [{ type: "missing", at: AT }, "changed", "changed", "same"],
    [{ type: "found", at: AT }, "same", "same", "same"],
    [finish("succeeded"), "not-started", "changed", "same"],
    [finish("succeeded", { startedAt: AT }), "changed", "changed", "same"],
    [finish("succeeded", { outcome: "succeeded" }), "not-started", "changed", "same"],
    [finish("succeeded", { outcome: "blocked" }), "not-started", "changed", "ended"],
    [finish("failed"), "not-started", "changed", "ended"],
    [finish("timed_out"), "not-started", "changed", "ended"],
    [finish("cancelled"), "changed", "changed", "ended"],
    [finish("lost"), "changed", "changed", "ended"],
  ];
  for (const [event, whenQueued, whenRunning, whenEnded] of all)
    test(`${event.type} ${"status" in event ? `${event.status} ${event.outcome}` : ""}: ${whenQueued}, ${whenRunning}, ${whenEnded}`, () => {
      expect([queued, running, done].map((each) => kindOf(each, event))).toEqual([
        whenQueued,
        whenRunning,
        whenEnded,
      ]);
    });

  test("a refused event is recorded and has no other effect", () => {
    const step = transition(done, finish("cancelled", { actor: "ada" }));
    const data = { said: "finish", status: "cancelled", why: "ended" };
    expect(step).toEqual({
      kind: "refused",
      why: "ended",
      change: { events: [{ type: "refused", at: AT + 9, data }] },
    });
  });

  test("an end is notified once per target, and a silent one to none", () => {
    const change = changeOf(
      transition(
        after(task({ targets: [PARENT, CHAT] }), start),
        finish("succeeded", { summary: "3 pages" }),
      ),
    );
    expect(change.set).toMatchObject({
      status: "succeeded",
      outcome: "succeeded",
      summary: "3 pages",
      delivery: "pending",
      endedAt: AT + 9,
      cleanupAfter: AT + 9 + defaults.taskKeptMs,
    });
    expect(change.notices).toMatchObject([
      { target: PARENT, inMs: 0, notification: { kind: "terminal", summary: "3 pages" } },
      { target: CHAT },
    ]);
    const quiet = changeOf(transition(after(task({ policy: "silent" }), start), finish("failed")));
    expect(quiet).toMatchObject({ set: { delivery: "not_applicable" }, notices: [] });
    const noTarget = changeOf(transition(after(task({ targets: [] }), start), finish("failed")));
    expect(noTarget).toMatchObject({ set: { delivery: "not_applicable" }, notices: [] });
  });

  test("an end that the requester waited for is not notified, and the history has the reason", () => {
    const eager = after(task({ policy: "state_changes", targets: [PARENT, CHAT] }), start);
    const change = changeOf(transition(eager, finish("failed", { answered: true })));
    expect(change).toMatchObject({
      set: { status: "failed", policy: "silent", delivery: "not_applicable" },
      events: [
        { type: "policy", data: { from: "state_changes", to: "silent" } },
        { type: "ended", data: { status: "failed" } },
      ],
      notices: [],
    });
    const quiet = after(task({ policy: "silent" }), start);
    const { events } = changeOf(transition(quiet, finish("failed", { answered: true })));
    expect(events?.map(({ type }) => type)).toEqual(["ended"]);
  });

  test("a task that ends without a start event has a start time", () => {
    const change = changeOf(transition(queued, finish("failed", { startedAt: AT + 3 })));
    expect(change.set).toMatchObject({ startedAt: AT + 3 });
    expect(change.events?.map(({ type, at }) => [type, at])).toEqual([
      ["started", AT + 3],
      ["ended", AT + 9],
    ]);
  });

  test("only a success has an outcome", () => {
    expect(after(running, finish("succeeded", { outcome: "blocked" })).outcome).toBe("blocked");
    expect(after(running, finish("failed", { outcome: "succeeded" })).outcome).toBeNull();
  });

  test("times in a history never decrease when the clock is set back", () => {
    const late = after(task(), { ...start, at: AT + 100 }, finish("succeeded", { at: AT - 1_000 }));
    expect(late).toMatchObject({ startedAt: AT + 100, endedAt: AT + 100, lastEventAt: AT + 100 });
  });

  test("progress is one sanitized line of at most 240 characters, and a repeat is a heartbeat", () => {
    const family = "\u{1F469}\u200D\u{1F469}\u200D\u{1F466}";
    const { progress: kept } = after(running, progress(`a\r\n\x1b[31mb\u202e ${family.repeat(60)}`));
    expect(kept?.length).toBeLessThanOrEqual(defaults.taskProgressChars);
    expect(kept).toMatch(new RegExp(`^a b<U\\+202E> (?:${family})+…$`, "u"));
    const again = transition({ ...running, progress: "same" }, progress("same", AT + 50));
    expect(again).toEqual({
      kind: "changed",
      change: { set: { lastEventAt: AT + 50, missingSince: null, stalledAt: null } },
    });
  });

  test("results are bounded", () => {
    const { summary, error } = after(
      running,
      finish("failed", { summary: "x".repeat(100_000), error: "y\x07".repeat(100_000) }),
    );
    expect(summary).toHaveLength(defaults.taskSummaryChars);
    expect(error).toHaveLength(defaults.taskErrorChars);
    expect(error).not.toContain("\x07");
  });
});

describe("notifications of changes", () => {
  const lively = task({ policy: "state_changes" });
  const everyMs = defaults.taskStateNoticeMs;
  const toldIn = (step: Transition): readonly number[] =>
    (changeOf(step).notices ?? []).map(({ inMs }) => inMs);

  test("notifications keep a distance, and a waiting one is replaced by the next", () => {
    const began = transition(lively, start);
    expect(changeOf(began).notices).toMatchObject([
      { inMs: 0, notification: { id: `task-state:${lively.taskId}:2`, kind: "state", status: "running" } },
    ]);
    let now = applied(lively, changeOf(began));
    for (const [text, at, inMs] of [
      ["a", 1_001, everyMs - 1_000],
      ["b", 2_001, everyMs - 2_000],
      ["c", everyMs + 5_001, everyMs - 5_000],
      ["d", 3 * everyMs + 1, 0],
    ] as const) {
      const step = transition(now, progress(text, AT + at));
      expect(toldIn(step), text).toEqual([inMs]);
      now = applied(now, changeOf(step));
    }
  });

  test("the delay is bounded for any wall clock", () => {
    const odd = { ...after(lively, start), noticedAt: AT + 1e12 };
    expect(toldIn(transition(odd, progress("x")))).toEqual([everyMs]);
    expect(toldIn(transition({ ...odd, noticedAt: 0 }, progress("x")))).toEqual([0]);
  });

  test("a stall is notified once until there is progress", () => {
    const stall: TaskInputEvent = { type: "stall", at: AT + 200_000, silentMs: 180_000 };
    const running = after(lively, start);
    const stalled = after(running, stall);
    expect(changeOf(transition(running, stall)).notices).toMatchObject([
      { notification: { text: "Task “make all” has made no progress for 3 min", status: "running" } },
    ]);
    expect(transition(stalled, stall)).toEqual({ kind: "same" });
    expect(stalled.status).toBe("running");
    expect(kindOf(after(stalled, { type: "heartbeat", at: AT + 300_000 }), stall)).toBe("changed");
  });

  test("changes are notified only under the policy state_changes, also after a change of policy", () => {
    for (const policy of NOTIFY_POLICIES) {
      const { notices = [] } = changeOf(transition(after(task({ policy }), start), progress("x")));
      expect(notices).toHaveLength(policy === "state_changes" ? 1 : 0);
    }
    const turned = after(task(), start, { type: "policy", at: AT + 2, policy: "state_changes", actor: "a" });
    expect(changeOf(transition(turned, progress("x"))).notices).toHaveLength(1);
    const silenced = after(turned, { type: "policy", at: AT + 3, policy: "silent", actor: "a" });
    expect(silenced.delivery).toBe("not_applicable");
    expect(changeOf(transition(silenced, finish("failed"))).notices).toEqual([]);
  });
});

const ends = TASK_STATUSES.filter(isTaskEnded) as TaskFinish["status"][];
const at = fc.integer({ min: AT - 100_000, max: AT + 1_000_000 });
const events: fc.Arbitrary<TaskInputEvent> = fc.oneof(
  at.map((when): TaskInputEvent => ({ type: "start", at: when })),
  at.map((when): TaskInputEvent => ({ type: "heartbeat", at: when })),
  at.map((when): TaskInputEvent => ({ type: "missing", at: when })),
  at.map((when): TaskInputEvent => ({ type: "found", at: when })),
  fc.tuple(at, fc.string()).map(([when, text]) => progress(text, when)),
  at.map((when): TaskInputEvent => ({ type: "stall", at: when, silentMs: 1 })),
  fc
    .tuple(at, fc.constantFrom(...NOTIFY_POLICIES))
    .map(([when, policy]): TaskInputEvent => ({ type: "policy", at: when, policy, actor: "a" })),
  fc
    .tuple(at, fc.constantFrom(...ends), fc.option(at), fc.option(fc.string()), fc.boolean())
    .map(([when, status, startedAt, summary, answered]) =>
      finish(status, { at: when, startedAt, summary, answered }),
    ),
);

test("no sequence of events changes an ended task or notifies its end twice", () => {
  fc.assert(
    fc.property(fc.constantFrom(...NOTIFY_POLICIES), fc.array(events, { maxLength: 40 }), (policy, all) => {
      let now = task({ policy, targets: [PARENT, CHAT] });
      const told: string[] = [];
      let end: TaskRecord | null = null;
      for (const each of all) {
        const before = structuredClone(now);
        const step = transition(now, each);
        expect(now).toEqual(before);
        if (step.kind === "same") continue;
        const { change } = step;
        if (step.kind === "refused") expect(change.set).toBeUndefined();
        if (isTaskEnded(now.status) || (each.type === "finish" && each.answered === true))
          expect(change.notices ?? []).toEqual([]);
        const seqs = (change.events ?? []).length;
        for (const { notification, target } of change.notices ?? [])
          told.push(`${notification.id} ${JSON.stringify(target)}`);
        now = applied(now, change);
        expect(now.seq).toBe(before.seq + seqs);
        if (end !== null) expect({ ...now, seq: 0, version: 0 }).toEqual({ ...end, seq: 0, version: 0 });
        else if (isTaskEnded(now.status)) end = now;
      }
      expect(new Set(told).size).toBe(told.length);
      const terminal = told.filter((id) => id.startsWith("task-terminal"));
      expect(terminal.length).toBe(end === null || end.delivery === "not_applicable" ? 0 : 2);
      if (end !== null) expect(end.delivery === "not_applicable").toBe(end.policy === "silent");
      const { createdAt, startedAt, endedAt } = now;
      const order = [createdAt, startedAt, endedAt].filter((each) => each !== null);
      expect(order).toEqual(order.toSorted((one, other) => one - other));
    }),
    { numRuns: repetitions(100, 500) },
  );
});
