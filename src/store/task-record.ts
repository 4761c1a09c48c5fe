export const TASK_RUNTIMES = ["acp", "subagent", "exec", "external"] as const;
export type TaskRuntime = (typeof TASK_RUNTIMES)[number];

/**
 *     queued ──started──▶ running ──▶ succeeded │ failed │ timed_out
 *        └────────────────────┴─────▶ cancelled │ lost
 *
 * Work can also end before anybody said that it had started: it then passes through `running` unseen.
 */
export const TASK_STATUSES = [
  "queued",
  "running",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
  "lost",
] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

/** When the requester hears of it: at its end, at every change, never. */
export const NOTIFY_POLICIES = ["done_only", "state_changes", "silent"] as const;
export type NotifyPolicy = (typeof NOTIFY_POLICIES)[number];

/** What came of work that went through: done, or it needs somebody before it can go on. */
export const TASK_OUTCOMES = ["succeeded", "blocked"] as const;
export type TaskOutcome = (typeof TASK_OUTCOMES)[number];

/** What is told to whom. The same id whenever it is told again: a receiver drops what it has had. */
export interface Notification {
  /** `task-terminal:<taskId>` or `task-state:<taskId>:<seq>`. */
  readonly id: string;
  readonly taskId: string;
  readonly kind: "terminal" | "state";
  readonly status: TaskStatus;
  readonly outcome: TaskOutcome | null;
  /** What the task is called, on one line. */
  readonly label: string;
  readonly runtime: TaskRuntime;
  /** The result or the progress, bounded; never the child's chatter. */
  readonly summary: string;
  readonly error: string | null;
  readonly at: number;
  /** The short message as a person reads it. */
  readonly text: string;
}

/** Where to. */
export type Target =
  /** The parent session, as a system event. */
  | { readonly kind: "session"; readonly sessionId: string }
  /** One of the configuration; `address`: the chat or thread within it. */
  | { readonly kind: "channel"; readonly channel: string; readonly address: string | null };
