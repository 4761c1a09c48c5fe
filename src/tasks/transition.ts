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
import type { NewOutboxEntry } from "../model/outbox.js";
import type { TaskChange } from "../store/tasks/store.js";
import { multiLine, singleLine } from "../text/truncate.js";
import { endNotification, type NoticeChange, stateNotification } from "./notification-text.js";

/**
 * In how many milliseconds a change may be told: changes of one task keep their distance, and one that waits for its
 * time is replaced by the next. `noticedAt`: when the last one was told, or is to be.
 */
export function noticeDelay(noticedAt: number | null, now: number, everyMs: number): number {
  if (noticedAt === null) return 0;
  const at = noticedAt > now ? noticedAt : noticedAt + everyMs;
  // Not longer, wherever the wall clock was when it was written.
  return Math.min(Math.max(0, at - now), everyMs);
}

/** The end of a task. */
export interface TaskFinish {
  readonly type: "finish";
  readonly at: number;
  readonly status: Exclude<TaskStatus, "queued" | "running">;
  /** Of one that succeeds, and only of such. */
  readonly outcome: TaskOutcome | null;
  /** The result. */
  readonly summary: string | null;
  readonly error: string | null;
  /** Who or what ended it; empty: it came to its end. */
  readonly actor: string;
  /** When the work began, for a task that nobody has told so; null: not known, or it never did. */
  readonly startedAt: number | null;
  /** Whoever asked has waited for it, and has the answer: no message is due. */
  readonly answered?: boolean;
}

/** Seen by whoever looks on: when it comes after the end, nobody has made a mistake. */
interface Observed {
  readonly overheard?: boolean;
}

/** What is said of a task. */
export type TaskInputEvent =
  | ({ readonly type: "start"; readonly at: number } & Observed)
  | ({ readonly type: "progress"; readonly at: number; readonly text: string } & Observed)
  /** Whoever does it is alive. */
  | { readonly type: "heartbeat"; readonly at: number }
  | { readonly type: "stall"; readonly at: number; readonly silentMs: number }
  | { readonly type: "policy"; readonly at: number; readonly policy: NotifyPolicy; readonly actor: string }
  /** Who does it is known by now. */
  | {
      readonly type: "link";
      readonly at: number;
      readonly to: Partial<Pick<TaskRecord, "runId" | "turnId" | "childSessionId">>;
    }
  /** Nobody is known to do it. */
  | { readonly type: "missing"; readonly at: number }
  /** Somebody does, after all. */
  | { readonly type: "found"; readonly at: number }
  | TaskFinish;

export type RejectReason = "ended" | "not-started";

export type Transition =
  | { readonly kind: "changed"; readonly change: TaskChange }
  /** It says what is so already: a repetition, and no mistake. */
  | { readonly kind: "same" }
  | { readonly kind: "refused"; readonly why: RejectReason; readonly change: TaskChange };

type CellAction = "take" | "same" | RejectReason;

/** Every cell is filled: what is ignored is so on purpose. Of an end, `onFinish` decides. */
const TRANSITIONS: Readonly<
  Record<
    "queued" | "running" | "ended",
    Readonly<Record<Exclude<TaskInputEvent["type"], "finish">, CellAction>>
  >
> = {
  queued: {
    start: "take",
    // A place in a queue is progress, too.
    progress: "take",
    heartbeat: "take",
    stall: "not-started",
    policy: "take",
    link: "take",
    missing: "take",
    found: "take",
  },
  running: {
    start: "same",
    progress: "take",
    heartbeat: "take",
    stall: "take",
    policy: "take",
    link: "take",
    missing: "take",
    found: "take",
  },
  ended: {
    start: "ended",
    progress: "ended",
    // Of one that is on its way when the work ends, nobody needs to know.
    heartbeat: "same",
    stall: "ended",
    policy: "ended",
    link: "ended",
    missing: "same",
    found: "same",
  },
};

/** Work that never began can be cancelled or lost, and nothing else; an end that is told again is no second one. */
function decideFinish(task: TaskRecord, finish: TaskFinish): CellAction {
  const { status, startedAt } = finish;
  if (isTaskEnded(task.status))
    return task.status === status && task.outcome === finishOutcome(finish) ? "same" : "ended";
  const began = task.startedAt ?? startedAt;
  return began !== null || status === "cancelled" || status === "lost" ? "take" : "not-started";
}

function finishOutcome({ status, outcome }: TaskFinish): TaskOutcome | null {
  return status === "succeeded" ? (outcome ?? "succeeded") : null;
}

/**
 * What follows from a happening: the new record with its events and messages, or why there is none. Pure; a task that
 * has ended is never moved by anything.
 */
export function transition(task: TaskRecord, input: TaskInputEvent): Transition {
  const { status } = task;
  const row = TRANSITIONS[status === "queued" || status === "running" ? status : "ended"];
  const verdict = input.type === "finish" ? decideFinish(task, input) : row[input.type];
  if (verdict === "same" || (verdict === "ended" && isObserved(input))) return { kind: "same" };
  if (verdict !== "take") return rejection(input, verdict, task);
  const change = applyEvent(task, input);
  return change === null ? { kind: "same" } : { kind: "changed", change };
}

function isObserved(input: TaskInputEvent): boolean {
  return "overheard" in input && (input.overheard ?? false);
}

/** Whether a delivery is to be expected, for a task that goes on. */
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
  // The wall clock may be set back; a history goes forward.
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
      const set = { ...alive, progress };
      return changeWithNotice(
        task,
        at,
        set,
        { type: "progress", at, data: { text: progress } },
        { type: "progress" },
      );
    }
    case "stall": {
      if (task.stalledAt !== null) return null;
      const { silentMs } = input;
      const event: NewTaskEvent = { type: "stalled", at, data: { silentMs } };
      return changeWithNotice(task, at, { stalledAt: at }, event, { type: "stalled", silentMs });
    }
    case "policy": {
      const { policy, actor } = input;
      if (policy === task.policy) return null;
      const delivery = expectedDelivery({ ...task, policy });
      return { set: { policy, delivery }, events: [policyEvent(task, at, policy, actor)] };
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

const ANSWERED_ACTOR = "whoever asked, and has the answer";

function policyEvent(
  { policy: from }: TaskRecord,
  at: number,
  to: NotifyPolicy,
  actor: string,
): NewTaskEvent {
  return { type: "policy", at, data: { from, to, actor } };
}

function endChange(task: TaskRecord, finish: TaskFinish, at: number): TaskChange {
  const { status, actor, answered = false } = finish;
  const policy = answered ? "silent" : task.policy;
  const began = task.startedAt ?? finish.startedAt;
  const startedAt = began === null ? null : Math.min(Math.max(began, task.createdAt), at);
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
  const notices = targets.map((target): NewOutboxEntry => ({ target, notification, inMs: 0 }));
  return { set: { ...set, delivery }, events, notices };
}

/** A change, and its message where the requester wants to hear of changes. */
function changeWithNotice(
  task: TaskRecord,
  at: number,
  set: TaskPatch,
  event: NewTaskEvent,
  change: NoticeChange,
): TaskChange {
  const events = [event];
  if (task.policy !== "state_changes" || task.targets.length === 0) return { set, events };
  const inMs = noticeDelay(task.noticedAt, at, defaults.taskStateNoticeMs);
  const notification = stateNotification({ ...task, ...set }, task.seq + 1, at, change);
  return {
    set: { ...set, noticedAt: at + inMs },
    events,
    notices: task.targets.map((target) => ({ target, notification, inMs })),
  };
}
