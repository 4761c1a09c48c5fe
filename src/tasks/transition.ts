import { defaults } from "../defaults.js";
import {
  isTaskEnded,
  type NewTaskEvent,
  type NotifyPolicy,
  type TaskDelivery,
  type TaskOutcome,
  type TaskPatch,
  type TaskRecord,
  type TaskStatus,
} from "../model/task.js";
import { type NewOutboxEntry, type NotificationTarget, targetKey } from "../model/outbox.js";
import type { TaskChange } from "../store/tasks/contract.js";
import { multiLine, singleLine } from "../text/truncate.js";
import { addTarget, isNotifiedOfChanges } from "./notification-routing.js";
import {
  endNotification,
  type NoticeChange,
  stateNotification,
  withUserNotified,
} from "./notification-text.js";

/**
 * The delay before a change is notified. Notifications of one task keep a distance, and one that still waits is replaced
 * by the next. `noticedAt`: when the last one was sent, or is to be.
 */
function noticeDelay(noticedAt: number | null, now: number, everyMs: number): number {
  if (noticedAt === null) return 0;
  const at = noticedAt > now ? noticedAt : noticedAt + everyMs;
  // Bounded, because the wall clock may have been set back.
  return Math.min(Math.max(0, at - now), everyMs);
}

/** The end of a task. */
export interface TaskFinish {
  readonly type: "finish";
  readonly at: number;
  readonly status: Exclude<TaskStatus, "queued" | "running">;
  /** Only if the task succeeded. */
  readonly outcome: TaskOutcome | null;
  readonly summary: string | null;
  readonly error: string | null;
  /** The actor that ended the task; empty: it ended by itself. */
  readonly actor: string;
  /** When the work started, if there was no event for it; null: unknown, or never. */
  readonly startedAt: number | null;
  /** The requester waited and has the answer, so no notification is due. */
  readonly answered?: boolean;
}

/** An event from observation rather than a report: after the end it is ignored, not refused. */
interface Observed {
  readonly observed?: boolean;
}

export type TaskInputEvent =
  | ({ readonly type: "start"; readonly at: number } & Observed)
  | ({ readonly type: "progress"; readonly at: number; readonly text: string } & Observed)
  /** The work is alive. */
  | { readonly type: "heartbeat"; readonly at: number }
  | { readonly type: "stall"; readonly at: number; readonly silentMs: number }
  | {
      readonly type: "policy";
      readonly at: number;
      readonly policy: NotifyPolicy;
      readonly actor: string;
      /** Another target. */
      readonly target?: NotificationTarget | undefined;
    }
  /** The run, turn or session that does the work is known. */
  | {
      readonly type: "link";
      readonly at: number;
      readonly to: Partial<Pick<TaskRecord, "runId" | "turnId" | "childSessionId">>;
    }
  /** The work cannot be found. */
  | { readonly type: "missing"; readonly at: number }
  /** The work was found again. */
  | { readonly type: "found"; readonly at: number }
  | TaskFinish;

export type RejectReason = "ended" | "not-started";

export type Transition =
  | { readonly kind: "changed"; readonly change: TaskChange }
  /** The task already is in this state. */
  | { readonly kind: "same" }
  | { readonly kind: "refused"; readonly why: RejectReason; readonly change: TaskChange };

type CellAction = "take" | "same" | RejectReason;

/** Every state and event is listed, so nothing is ignored by accident. `decideFinish` handles the end. */
const TRANSITIONS: Readonly<
  Record<
    Exclude<TaskInputEvent["type"], "finish">,
    Readonly<Record<"queued" | "running" | "ended", CellAction>>
  >
> = {
  start: { queued: "take", running: "same", ended: "ended" },
  // A queued task may report its place in a queue.
  progress: { queued: "take", running: "take", ended: "ended" },
  // A heartbeat may be under way when the work ends.
  heartbeat: { queued: "take", running: "take", ended: "same" },
  stall: { queued: "not-started", running: "take", ended: "ended" },
  policy: { queued: "take", running: "take", ended: "ended" },
  link: { queued: "take", running: "take", ended: "ended" },
  missing: { queued: "take", running: "take", ended: "same" },
  found: { queued: "take", running: "take", ended: "same" },
};

/** Work that never started can only be cancelled or lost. A repeated end has no effect. */
function decideFinish(task: TaskRecord, finish: TaskFinish): CellAction {
  const { status, startedAt } = finish;
  if (isTaskEnded(task.status))
    return task.status === status && task.outcome === finishOutcome(finish) ? "same" : "ended";
  const start = task.startedAt ?? startedAt;
  return start !== null || status === "cancelled" || status === "lost" ? "take" : "not-started";
}

function finishOutcome({ status, outcome }: TaskFinish): TaskOutcome | null {
  return status === "succeeded" ? (outcome ?? "succeeded") : null;
}

/** The change that an event makes to a task, or why there is none. Pure; an ended task never changes its status. */
export function transition(task: TaskRecord, input: TaskInputEvent): Transition {
  const { status } = task;
  const state = status === "queued" || status === "running" ? status : "ended";
  const verdict = input.type === "finish" ? decideFinish(task, input) : TRANSITIONS[input.type][state];
  if (verdict === "same" || (verdict === "ended" && isObserved(input))) return { kind: "same" };
  if (verdict !== "take") return rejection(input, verdict, task);
  const change = applyEvent(task, input);
  return change === null ? { kind: "same" } : { kind: "changed", change };
}

function isObserved(input: TaskInputEvent): boolean {
  return "observed" in input && (input.observed ?? false);
}

/** The delivery status of a task that has not ended. */
export function expectedDelivery({ policy, targets }: Pick<TaskRecord, "policy" | "targets">): TaskDelivery {
  return policy === "silent" || targets.length === 0 ? "not_applicable" : "pending";
}

function rejection(input: TaskInputEvent, why: RejectReason, task: TaskRecord): Transition {
  const { type, at } = input;
  const data = type === "finish" ? { said: type, status: input.status, why } : { said: type, why };
  return {
    kind: "refused",
    why,
    change: { events: [{ type: "refused", at: Math.max(at, task.lastEventAt), data }] },
  };
}

function applyEvent(task: TaskRecord, input: TaskInputEvent): TaskChange | null {
  // The wall clock may be set back, but the times of a history must not decrease.
  const at = Math.max(input.at, task.lastEventAt);
  const alive: TaskPatch = { lastEventAt: at, missingSince: null, stalledAt: null };
  switch (input.type) {
    case "start": {
      const set: TaskPatch = { ...alive, status: "running", startedAt: at };
      return changeWithNotice(task, at, set, { type: "started", at, data: {} }, { type: "started" });
    }
    case "heartbeat":
      return { set: alive };
    case "progress": {
      const progress = singleLine(input.text, defaults.taskProgressChars);
      if (progress === (task.progress ?? "")) return { set: alive };
      const event: NewTaskEvent = { type: "progress", at, data: { text: progress } };
      return changeWithNotice(task, at, { ...alive, progress }, event, { type: "progress" });
    }
    case "stall": {
      if (task.stalledAt !== null) return null;
      const { silentMs } = input;
      const event: NewTaskEvent = { type: "stalled", at, data: { silentMs } };
      return changeWithNotice(task, at, { stalledAt: at }, event, { type: "stalled", silentMs });
    }
    case "policy": {
      const { policy, actor, target } = input;
      const targets = target === undefined ? task.targets : addTarget(task.targets, target);
      if (policy === task.policy && targets === task.targets) return null;
      const delivery = expectedDelivery({ policy, targets });
      const added = targets === task.targets || target === undefined ? {} : { target: targetKey(target) };
      return { set: { policy, targets, delivery }, events: [policyEvent(task, at, policy, actor, added)] };
    }
    case "link":
      return {
        set: { ...input.to, lastEventAt: at },
        events: [{ type: "linked", at, data: input.to }],
      };
    case "missing":
      return task.missingSince === null
        ? { set: { missingSince: input.at }, events: [{ type: "missing", at, data: {} }] }
        : null;
    case "found":
      return task.missingSince === null ? null : { set: { missingSince: null } };
    case "finish":
      return endChange(task, input, at);
  }
}

const ANSWERED_ACTOR = "the requester, who has the answer";

function policyEvent(
  { policy: from }: TaskRecord,
  at: number,
  to: NotifyPolicy,
  actor: string,
  more: Readonly<Record<string, unknown>> = {},
): NewTaskEvent {
  return { type: "policy", at, data: { from, to, actor, ...more } };
}

function endChange(task: TaskRecord, finish: TaskFinish, at: number): TaskChange {
  const { status, actor, answered = false } = finish;
  const policy = answered ? "silent" : task.policy;
  const start = task.startedAt ?? finish.startedAt;
  const startedAt = start === null ? null : Math.min(Math.max(start, task.createdAt), at);
  const outcome = finishOutcome(finish);
  const set: TaskPatch = {
    status,
    policy,
    outcome,
    startedAt,
    endedAt: at,
    lastEventAt: at,
    summary: finish.summary === null ? null : multiLine(finish.summary, defaults.taskSummaryChars),
    error: finish.error === null ? null : multiLine(finish.error, defaults.taskErrorChars),
    cleanupAfter: at + defaults.taskKeptMs,
    missingSince: null,
    stalledAt: null,
  };
  const events: NewTaskEvent[] = [];
  if (task.startedAt === null && startedAt !== null)
    events.push({ type: "started", at: startedAt, data: {} });
  if (policy !== task.policy) events.push(policyEvent(task, at, policy, ANSWERED_ACTOR));
  events.push({
    type: "ended",
    at,
    data: { status, outcome, actor: singleLine(actor, defaults.taskLabelChars) },
  });
  const delivery = expectedDelivery({ ...task, policy });
  const notification = endNotification({ ...task, ...set });
  const targets = delivery === "not_applicable" ? [] : task.targets;
  const notices = targets.map((target): NewOutboxEntry => {
    const forTarget = target.kind === "session" ? withUserNotified(notification, targets) : notification;
    return { target, notification: forTarget, inMs: 0 };
  });
  return { set: { ...set, delivery }, events, notices };
}

/** A change, with its notification if the policy is `state_changes`. */
function changeWithNotice(
  task: TaskRecord,
  at: number,
  set: TaskPatch,
  event: NewTaskEvent,
  change: NoticeChange,
): TaskChange {
  const events = [event];
  const targets = task.targets.filter(isNotifiedOfChanges);
  if (task.policy !== "state_changes" || targets.length === 0) return { set, events };
  const inMs = noticeDelay(task.noticedAt, at, defaults.taskStateNoticeMs);
  const notification = stateNotification({ ...task, ...set }, task.seq + 1, at, change);
  return {
    set: { ...set, noticedAt: at + inMs },
    events,
    notices: targets.map((target) => ({ target, notification, inMs })),
  };
}
