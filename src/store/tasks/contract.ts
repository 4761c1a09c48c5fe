import type { SessionScope } from "../../model/session.js";
import type {
  NewTaskEvent,
  TaskDelivery,
  TaskEvent,
  TaskPatch,
  TaskRecord,
  TaskRuntime,
  TaskStatus,
} from "../../model/task.js";
import type { NewOutboxEntry, OutboxEntry, OutboxStatus, NotificationTarget } from "../../model/outbox.js";

export type NewTask = Omit<TaskRecord, "seq" | "version">;

/** The local copy of a task that the store may have lost. */
export interface RestoredTask {
  readonly taskId: string;
  /** Null: the task belongs to another gateway, and only its messages are restored. */
  readonly task: TaskRecord | null;
  readonly events: readonly TaskEvent[];
  readonly entries: readonly OutboxEntry[];
  /** Lease of an attempt that is in progress. */
  readonly leaseMs: number;
  /** Restored messages are not sent before this delay, so that a gateway that delivered them can record that first. */
  readonly waitMs: number;
}

/** `key-taken`: another task has the key now; nothing was written. `absent`: neither side has the task. */
export type TaskRestoration = "restored" | "same" | "key-taken" | "absent";

/** A change of a task. All of it is written, or nothing. */
export interface TaskChange {
  readonly set?: TaskPatch;
  readonly events?: readonly NewTaskEvent[];
  /** New messages. They replace unsent messages about earlier changes; so do the end of the task and a new policy. */
  readonly notices?: readonly NewOutboxEntry[];
}

/** The end of a page of a list. */
interface TaskPosition {
  readonly createdAt: number;
  readonly taskId: string;
}

export interface TaskFilter {
  readonly taskIds?: readonly string[];
  readonly statuses?: readonly TaskStatus[];
  readonly runtimes?: readonly TaskRuntime[];
  readonly deliveries?: readonly TaskDelivery[];
  /** Requested or done by this session. */
  readonly sessionId?: string;
  /** Done by this session. */
  readonly childSessionId?: string;
  /** Only tasks that these sessions own or work on. */
  readonly seenBy?: SessionScope;
  readonly runId?: string;
  readonly open?: boolean;
  /** Tasks whose `cleanupAfter` is before this time. */
  readonly cleanupBefore?: number;
  /** The page after the one that ended here. */
  readonly after?: TaskPosition;
  /** Newest first. */
  readonly limit: number;
}

export interface OutboxFilter {
  readonly taskId?: string;
  /** Only messages of these tasks. */
  readonly taskIds?: readonly string[];
  readonly target?: NotificationTarget;
  readonly statuses?: readonly OutboxStatus[];
  /** The page after the one that ended here. */
  readonly after?: Pick<OutboxEntry, "createdAt" | "key"> | undefined;
  readonly limit?: number;
}

export interface OutboxClaim {
  readonly owner: string;
  readonly leaseMs: number;
  readonly limit: number;
  /** Channels whose messages are not claimed. */
  readonly except?: readonly string[];
}

/** The result of an attempt. */
export type OutboxResult =
  | { readonly status: "delivered"; readonly receipt: string | null; readonly at: number }
  | { readonly status: "session_queued" | "parent_missing"; readonly at: number }
  | (FailedOutboxAttempt & { readonly status: "failed"; readonly at: number })
  /** Another attempt follows. */
  | (FailedOutboxAttempt & { readonly status: "pending"; readonly inMs: number });

interface FailedOutboxAttempt {
  readonly error: string;
  readonly spentMs: number;
  /** It is unknown whether the message arrived. */
  readonly unheard?: boolean;
}

export interface TaskReads {
  getTask(taskId: string): Promise<TaskRecord | null>;
  getTaskByKey(key: string): Promise<TaskRecord | null>;
  /** Tasks whose id starts with `prefix`, at most `limit`. */
  findTasks(prefix: string, limit: number): Promise<readonly TaskRecord[]>;
  listTasks(filter: TaskFilter): Promise<readonly TaskRecord[]>;
  /** Open tasks, by status. */
  countOpenTasks(): Promise<ReadonlyMap<TaskStatus, number>>;
  /** Oldest first. */
  listTaskEvents(taskId: string): Promise<readonly TaskEvent[]>;
  /** Oldest first. */
  listOutbox(filter: OutboxFilter): Promise<readonly OutboxEntry[]>;
  /** Messages that are pending, wait in a session, or failed, by status. */
  countUndelivered(): Promise<ReadonlyMap<OutboxStatus, number>>;
}

export interface TaskWrites {
  /** Inserts a task with its events, or returns the task that has the same key. */
  insertTask(
    task: NewTask,
    events: readonly NewTaskEvent[],
  ): Promise<{ readonly task: TaskRecord; readonly created: boolean }>;
  /**
   * Writes a change, its events and its messages in one transaction. It survives power loss if it has events; a
   * heartbeat without events may not. Null, and nothing written: the version has changed. Of the events of a task,
   * `created`, `started`, `ended` and the newest are kept.
   */
  commitTask(taskId: string, version: number, change: TaskChange): Promise<TaskRecord | null>;
  /**
   * Restores what the store has lost: a task that is missing or has an older version (an ended task stays as it is),
   * its events, and messages that are missing or not settled. In one transaction, with `event`.
   */
  restoreTask(copy: RestoredTask, event: NewTaskEvent): Promise<TaskRestoration>;
  /** Deletes ended tasks with their events and messages. Tasks with a pending message are kept. Returns how many. */
  deleteTasks(taskIds: readonly string[]): Promise<number>;
  /**
   * Claims messages to send; no other gateway gets them until the lease ends. The attempt is counted, and survives power
   * loss. A message about a change is never claimed beside or after the message about the end.
   */
  claimOutbox(claim: OutboxClaim): Promise<readonly OutboxEntry[]>;
  /** Milliseconds until a message may be due, of channels other than these; null: no message waits. */
  nextOutboxDelay(except?: readonly string[]): Promise<number | null>;
  /** Records the result of a claimed attempt. False, and nothing written: another gateway has claimed or settled it. */
  settleOutbox(claimed: OutboxEntry, result: OutboxResult): Promise<boolean>;
  /** Makes the messages of a sender that is gone due. Returns how many. */
  releaseOutbox(owner: string): Promise<number>;
  /** The parent session has read the message, or has ended before it could. False: the message did not wait there. */
  acknowledgeOutbox(
    key: string,
    taskId: string,
    at: number,
    as?: "delivered" | "parent_missing",
  ): Promise<boolean>;
  /** Makes failed messages of a task pending again, with all their attempts. Returns how many. */
  retryOutbox(taskId: string, event: NewTaskEvent): Promise<number>;
  /** Marks failed messages of a task as never to be delivered. Returns how many. */
  dismissOutbox(taskId: string, event: NewTaskEvent): Promise<number>;
}

export interface TaskStore extends TaskReads, TaskWrites {}
