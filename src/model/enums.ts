/** Why a run ended. */
export const END_REASONS = [
  "exit",
  "signal",
  "spawn-error",
  "manual-cancel",
  "overall-timeout",
  "no-output-timeout",
  "ownership-escape",
  "owner-lost",
  "lost",
  "shutdown",
] as const;

/** Which other sessions a session sees. Each level contains the one before. */
export const VISIBILITIES = ["self", "tree", "agent", "all"] as const;

/** The backend of sessions whose agent is a command for one prompt at a time. */
export const CLI_BACKEND = "cli";
/** The backend of ACP agents, in the records of their runs and sessions. */
export const ACP_BACKEND = "acp";

export const INTERACTION_MODES = ["run", "interactive"] as const;

export const EXEC_EFFECTS = ["allow", "ask", "deny"] as const;

/** `user`: sent to the session; `agent`: the session's answer; `system`: a notice to the session. */
export const MESSAGE_ROLES = ["user", "agent", "system"] as const;

/** `wake`: the agent gets the message as a prompt of its own if it can be woken; `next-turn`: with its next prompt. */
export const MESSAGE_DELIVERIES = ["wake", "next-turn"] as const;

export const ACP_MODES = ["run", "session"] as const;

/** When processes that a turn left behind are stopped: on request, when the turn is cancelled, or at the end of every turn. */
export const REAP_POLICIES = ["asked", "cancel", "always"] as const;

/** The access of an agent to files through the gateway. */
export const CLIENT_FILE_ACCESS = ["none", "read", "read-write"] as const;

/**
 *     starting ──▶ ready ──▶ closing ──▶ closed
 *        │  ▲        │          ▲
 *        ▼  └─prompt─┤          │
 *       down ◀───────┘──────────┘
 *
 * `down`: there is no agent process. The next prompt starts one, which resumes the agent's session if it can.
 */
export const ACP_SESSION_STATES = ["starting", "ready", "down", "closing", "closed"] as const;

export const ACP_TURN_STATES = ["queued", "running", "ended"] as const;

/**
 * `completed`: the agent reported its stop reason. `interrupted`: the agent's process ended during the turn; the prompt
 * is never sent again. `failed`: the agent answered with an error, broke the protocol or exceeded a limit.
 * `cancel-unconfirmed`: the agent was sent a cancellation and did not confirm it.
 */
export const ACP_TURN_OUTCOMES = [
  "completed",
  "cancelled",
  "interrupted",
  "cancel-unconfirmed",
  "failed",
] as const;

/**
 * `update`: a `session/update` of the agent, unchanged. `replay`: the same, sent again by an agent that was restarted.
 * Holdfast writes the others.
 */
export const ACP_UPDATE_TYPES = [
  "update",
  "replay",
  "turn",
  "permission",
  "session",
  "audit",
  "late-answer",
  "context-lost",
  "client",
  "settings",
  "elicitation",
] as const;

export const TASK_RUNTIMES = ["acp", "subagent", "exec", "external"] as const;

/**
 *     queued ──started──▶ running ──▶ succeeded │ failed │ timed_out
 *        └────────────────────┴─────▶ cancelled │ lost
 *
 * A task whose start was never reported can end directly from `queued`.
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

/** When the requester of a task is notified: at its end, at every change, or never. */
export const NOTIFY_POLICIES = ["done_only", "state_changes", "silent"] as const;

/** The kinds of chats in which users talk to sessions. */
export const CHAT_KINDS = ["direct", "group", "channel"] as const;

/**
 * The receiver of the end of work that a session requested. `user`: the user's chat, and a notice for the session.
 * `session`: only a notice for the session. `wake`: the session's agent, in a turn of its own.
 */
export const DELIVER_MODES = ["user", "session", "wake"] as const;

/** Result of a task that succeeded. `blocked`: a person must act before the work can continue. */
export const TASK_OUTCOMES = ["succeeded", "blocked"] as const;

/**
 * The delivery of the message about the end of a task. `session_queued`: the message waits in the parent session
 * until the session reads it. `not_applicable`: there is no message to deliver.
 */
export const TASK_DELIVERIES = [
  "pending",
  "delivered",
  "session_queued",
  "failed",
  "parent_missing",
  "not_applicable",
] as const;

export const TASK_EVENT_TYPES = [
  "created",
  "started",
  "progress",
  "stalled",
  "policy",
  "linked",
  "missing",
  "ended",
  "refused",
  "retried",
  "dismissed",
  "restored",
] as const;

/**
 *     pending ──▶ delivered
 *        │  └───▶ session_queued ──read──▶ delivered
 *        │               └──session ended──▶ parent_missing
 *        ▼
 *     failed │ parent_missing ──retry──▶ pending
 *        └──dismiss──▶ dismissed
 */
export const OUTBOX_STATUSES = [
  "pending",
  "delivered",
  "session_queued",
  "failed",
  "parent_missing",
  "dismissed",
] as const;

/** States of a lease, derived from the record of its run. */
export const LEASE_STATES = ["open", "closing", "closed", "lost"] as const;

/** Tools whose records `runs import --from` reads. */
export const FOREIGN_TOOLS = ["acpx", "openclaw"] as const;

/** The label that holds the name of a run. */
export const NAME_LABEL = "name";
