import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { NewTaskEvent, TaskEventType, TaskPatch } from "../../../src/model/task.js";
import type {
  NewOutboxEntry,
  Notification,
  NotificationTarget,
  OutboxEntry,
} from "../../../src/model/outbox.js";
import type { Store } from "../../../src/store/store.js";
import type { NewTask, TaskChange } from "../../../src/store/tasks/contract.js";
import { AT } from "./session-samples.js";

export const PARENT: NotificationTarget = { kind: "session", sessionId: "ses_parent" };
export const CHAT = { kind: "channel", channel: "chat", address: "42" } as const;

export function newTask(change: Partial<NewTask> = {}): NewTask {
  const taskId = `task_${randomUUID().slice(0, 12)}`;
  return {
    taskId,
    key: `run:${taskId}`,
    runtime: "exec",
    kind: "background",
    ownerSessionId: "ses_parent",
    childSessionId: "ses_child",
    parentTaskId: "task_above",
    agentId: "codex",
    runId: `run_${taskId}`,
    turnId: "turn_1",
    label: "build \u{1F600}",
    text: "make all",
    status: "queued",
    delivery: "pending",
    policy: "done_only",
    targets: [PARENT],
    origin: { chat: "group", channel: "chat", address: "42" },
    createdAt: AT,
    startedAt: null,
    endedAt: null,
    lastEventAt: AT,
    progress: null,
    summary: null,
    outcome: null,
    error: null,
    cleanupAfter: null,
    heartbeatMs: null,
    missingSince: null,
    stalledAt: null,
    noticedAt: null,
    ...change,
  };
}

export function taskEvent(type: TaskEventType, data: NewTaskEvent["data"] = {}): NewTaskEvent {
  return { type, at: AT, data };
}

export function newNotification(
  taskId: string,
  kind: Notification["kind"],
  change: Partial<NewOutboxEntry> & { readonly seq?: number } = {},
): NewOutboxEntry {
  const { seq = 2, ...rest } = change;
  const notification: Notification = {
    id: kind === "terminal" ? `task-terminal:${taskId}` : `task-state:${taskId}:${seq}`,
    taskId,
    kind,
    status: kind === "terminal" ? "succeeded" : "running",
    outcome: kind === "terminal" ? "succeeded" : null,
    label: "build",
    runtime: "exec",
    summary: "all built",
    error: null,
    at: AT,
    text: "Task “build” succeeded: all built",
  };
  return { target: PARENT, notification, inMs: 0, ...rest };
}

/** A change with its message. */
export function changeWithNotification(
  taskId: string,
  change: Parameters<typeof newNotification>[2] = {},
): TaskChange {
  return { set: { noticedAt: AT }, notices: [newNotification(taskId, "state", change)] };
}

export const SUCCEEDED: TaskPatch = {
  status: "succeeded",
  outcome: "succeeded",
  startedAt: AT + 1,
  endedAt: AT + 2,
  lastEventAt: AT + 2,
  summary: "all built",
  cleanupAfter: AT + 100,
};

/** An end, and its message. */
export function endWithNotification(
  taskId: string,
  targets: readonly NotificationTarget[] = [PARENT],
): TaskChange {
  return {
    set: SUCCEEDED,
    events: [taskEvent("started"), taskEvent("ended", { status: "succeeded" })],
    notices: targets.map((target) => newNotification(taskId, "terminal", { target })),
  };
}

export const delivered = { status: "delivered", receipt: "r1", at: AT + 5 } as const;
export const again = { status: "pending", error: "busy", spentMs: 1.5, inMs: 0 } as const;
export const dead = { status: "failed", error: "gone", spentMs: 9, at: AT + 5 } as const;

/** Lease of a claimed message. */
export const CLAIM_MS = 60_000;

/** Inserts a task that notifies of its changes. */
export async function begun(store: Store): Promise<string> {
  const { task } = await store.insertTask(newTask({ policy: "state_changes" }), [taskEvent("created")]);
  return task.taskId;
}

/** Inserts a task that has ended, with a message for each target. */
export async function ended(
  store: Store,
  targets: readonly NotificationTarget[] = [PARENT],
): Promise<string> {
  const taskId = await begun(store);
  await store.commitTask(taskId, 1, endWithNotification(taskId, targets));
  return taskId;
}

export function claim(store: Store, owner = "a", limit = 9): Promise<readonly OutboxEntry[]> {
  return store.claimOutbox({ owner, limit, leaseMs: CLAIM_MS });
}

export async function one(store: Store, owner = "a"): Promise<OutboxEntry> {
  return (await claim(store, owner))[0] ?? expect.fail("nothing to claim");
}

export async function deliveryOf(store: Store, taskId: string): Promise<unknown> {
  return (await store.getTask(taskId))?.delivery;
}
