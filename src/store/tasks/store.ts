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

/** What a gateway knows of a task that the store may have forgotten. */
export interface RestoredTask {
  readonly taskId: string;
  /** Null: another gateway's; only its messages are told. */
  readonly task: TaskRecord | null;
  readonly events: readonly TaskEvent[];
  readonly entries: readonly OutboxEntry[];
  /** How long an attempt that is under way may take. */
  readonly leaseMs: number;
  /** Messages that are put back are not sent before: another gateway may have delivered them, and says so first. */
  readonly waitMs: number;
}

/** `key-taken`: another task has its key by now, and nothing was written. `absent`: neither side has the task. */
export type TaskRestoration = "restored" | "same" | "key-taken" | "absent";

/** Everything that is true from here on: all of it is written, or nothing. */
export interface TaskChange {
  readonly set?: TaskPatch;
  readonly events?: readonly NewTaskEvent[];
  /** Messages about changes that nobody has begun to send give way to these, to the end, and to another policy. */
  readonly notices?: readonly NewOutboxEntry[];
}

/** Where a page of a list ends. */
export interface TaskPosition {
  readonly createdAt: number;
  readonly taskId: string;
}

export interface TaskFilter {
  /** Only these. */
  readonly taskIds?: readonly string[];
  readonly statuses?: readonly TaskStatus[];
  readonly runtimes?: readonly TaskRuntime[];
  readonly deliveries?: readonly TaskDelivery[];
  /** Asked for by it, or done by it. */
  readonly sessionId?: string;
  /** Done by it. */
  readonly childSessionId?: string;
  readonly runId?: string;
  readonly open?: boolean;
  /** Those that may be forgotten since before then. */
  readonly cleanupBefore?: number;
  /** The page after the one that ended here. */
  readonly after?: TaskPosition;
  /** Newest first. */
  readonly limit: number;
}

export interface OutboxFilter {
  readonly taskId?: string;
  /** Only of these tasks. */
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
  /** Channels whose messages are left where they are. */
  readonly except?: readonly string[];
}

/** What came of an attempt. */
export type OutboxResult =
  | { readonly status: "delivered"; readonly receipt: string | null; readonly at: number }
  | { readonly status: "session_queued" | "parent_missing"; readonly at: number }
  | (FailedOutboxAttempt & { readonly status: "failed"; readonly at: number })
  /** To be tried again. */
  | (FailedOutboxAttempt & { readonly status: "pending"; readonly inMs: number });

interface FailedOutboxAttempt {
  readonly error: string;
  readonly spentMs: number;
  /** Nobody knows whether it arrived. */
  readonly unheard?: boolean;
}

/** Background work, and who is to be told of it. */
export interface TaskStore {
  /** When another server, database or set of tables was last met, in wall-clock milliseconds; -Infinity: it is still the one that was opened. */
  readonly generationChangedAt: number;
  /** The task that has this key, or this one, with its events. */
  insertTask(
    task: NewTask,
    events: readonly NewTaskEvent[],
  ): Promise<{ readonly task: TaskRecord; readonly created: boolean }>;
  /**
   * Write a change, its events and its messages in one transaction, which survives power loss; one without events, as of a
   * sign of life, may not. Null, and nothing written: it is not at that version any more. Of its events, `created`,
   * `started`, `ended` and the newest are kept.
   */
  commitTask(taskId: string, version: number, change: TaskChange): Promise<TaskRecord | null>;
  getTask(taskId: string): Promise<TaskRecord | null>;
  getTaskByKey(key: string): Promise<TaskRecord | null>;
  /** Tasks whose id starts with `prefix`, at most `limit`. */
  findTasks(prefix: string, limit: number): Promise<readonly TaskRecord[]>;
  listTasks(filter: TaskFilter): Promise<readonly TaskRecord[]>;
  /**
   * Tell again what the store has forgotten: a task that it does not have or has at an older version (one that has ended
   * there stays as it is), events, and messages that it has not or has as not settled. In one transaction, with `event`.
   */
  restoreTask(told: RestoredTask, event: NewTaskEvent): Promise<TaskRestoration>;
  /** By status. */
  countOpenTasks(): Promise<ReadonlyMap<TaskStatus, number>>;
  /** Oldest first. */
  listTaskEvents(taskId: string): Promise<readonly TaskEvent[]>;
  /**
   * Forget tasks that have ended, with their events and messages. Others are left alone, and those of which somebody is
   * still to be told. Returns how many.
   */
  deleteTasks(taskIds: readonly string[]): Promise<number>;
  /** Oldest first. */
  listOutbox(filter: OutboxFilter): Promise<readonly OutboxEntry[]>;
  /** Messages to be sent, waiting in a session, or given up: by status. */
  countUndelivered(): Promise<ReadonlyMap<OutboxStatus, number>>;
  /**
   * Take messages to send; nobody else gets them until the lease is over. The attempt is counted, and survives power
   * loss with what it is about. Never one about a change beside or after the one about the end.
   */
  claimOutbox(claim: OutboxClaim): Promise<readonly OutboxEntry[]>;
  /** In how many milliseconds there may be something to claim, for other channels than these; null: nothing waits. */
  nextOutboxDelay(except?: readonly string[]): Promise<number | null>;
  /** Of the attempt that was claimed. False, and nothing written: somebody else has it by now, or it is settled. */
  settleOutbox(claimed: OutboxEntry, result: OutboxResult): Promise<boolean>;
  /** Whoever had this name is gone: what it was sending is due. Returns how many. */
  releaseOutbox(owner: string): Promise<number>;
  /** The parent session has read what waited there, or was ended before it could. False: nothing waited. */
  acknowledgeOutbox(
    key: string,
    taskId: string,
    at: number,
    as?: "delivered" | "parent_missing",
  ): Promise<boolean>;
  /** Messages of a task that could not be delivered, from the beginning. Returns how many. */
  retryOutbox(taskId: string, event: NewTaskEvent): Promise<number>;
  /** Never to be delivered. Returns how many. */
  dismissOutbox(taskId: string, event: NewTaskEvent): Promise<number>;
}
