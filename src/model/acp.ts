/** A rule on a tool call. All parts that are there must match; `*` in a title stands for any text. */
export interface PermissionRule {
  readonly effect: "allow" | "reject" | "ask";
  readonly kind?: string | undefined;
  readonly title?: string | undefined;
}

/** An error that a caller can be told, as it is kept. */
export interface StoredError {
  readonly code: string;
  readonly message: string;
}

export const ACP_MODES = ["run", "session"] as const;
export type AcpMode = (typeof ACP_MODES)[number];

/** When processes that a turn has left are ended: only where somebody asks, when it is cancelled, at every end. */
export const REAP_POLICIES = ["asked", "cancel", "always"] as const;
export type ReapPolicy = (typeof REAP_POLICIES)[number];

/** What an agent may do with files through us. */
export const CLIENT_FILE_ACCESS = ["none", "read", "read-write"] as const;

/**
 *     starting ──▶ ready ──▶ closing ──▶ closed
 *        │  ▲        │          ▲
 *        ▼  └─prompt─┤          │
 *       down ◀───────┘──────────┘
 *
 * `down`: there is no agent process; the next prompt starts one, which goes on with the agent's session where it can.
 */
export const ACP_SESSION_STATES = ["starting", "ready", "down", "closing", "closed"] as const;
export type AcpSessionState = (typeof ACP_SESSION_STATES)[number];

/** An ACP session, and where the conversation with its agent stands. The row of `sessions` says whose it is. */
export interface AcpSession {
  readonly sessionId: string;
  /** The only one that may write it. */
  readonly gatewayInstanceId: string;
  /** Of the catalogue; null: a command of the caller's. */
  readonly agent: string | null;
  /** Null: not kept. What looks like a secret is in it, or a session named a program by the PATH of its own. */
  readonly argv: readonly string[] | null;
  /** For display. */
  readonly command: string;
  readonly cwd: string;
  readonly mode: AcpMode;
  readonly rules: readonly PermissionRule[];
  readonly reap: ReapPolicy;
  readonly state: AcpSessionState;
  /** Of the agent's process, the last one there was. */
  readonly runId: string | null;
  /** To be removed when that run has ended. */
  readonly tmpdir: string | null;
  /** The agent's own name for the session. */
  readonly agentSessionId: string | null;
  /** As the agent answered `initialize`. */
  readonly capabilities: unknown;
  /** Of the agent's output, the offset up to which everything is kept here. */
  readonly end: number;
  /** The frame that was last on its way to the agent. */
  readonly sending: { readonly at: number; readonly text: string } | null;
  /** Requests that the agent has not answered. */
  readonly pending: readonly PendingAcpRequest[];
  /** Of the newest update. */
  readonly seq: number;
  /** Counts the changes: so whoever does not know whether one was written can tell. */
  readonly version: number;
  /** Why there is no agent process, or none came up. */
  readonly problem: StoredError | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly closedAt: number | null;
}

export interface PendingAcpRequest {
  readonly id: number;
  readonly method: string;
  readonly sentAt: number;
  readonly deadline: number | null;
  readonly fatal: boolean;
}

export const ACP_TURN_STATES = ["queued", "running", "ended"] as const;
export type AcpTurnState = (typeof ACP_TURN_STATES)[number];

/**
 * `completed`: the agent said how it stopped. `interrupted`: its process ended on the way, and the prompt is never sent
 * again. `cancel-unconfirmed`: it was told to stop and did not say that it has.
 */
export const ACP_TURN_OUTCOMES = [
  "completed",
  "cancelled",
  "interrupted",
  "cancel-unconfirmed",
  "failed",
] as const;
export type AcpTurnOutcome = (typeof ACP_TURN_OUTCOMES)[number];

export interface AcpTurnCancellation {
  readonly actor: string;
  readonly at: number;
  readonly reapTools: boolean;
}

/** A process that was born in a turn and lived when it had ended. */
export interface LeftoverProcess {
  readonly pid: number;
  readonly startTime: number;
  readonly uniqueId: string | null;
  readonly command: string;
}

/** What a look at the agent's tree after a turn has found. */
export interface TurnAudit {
  readonly at: number;
  readonly left: readonly LeftoverProcess[];
  /** Whether those were ended. */
  readonly reaped: boolean;
  /** Of them, who would not go. */
  readonly survivors: readonly LeftoverProcess[];
  /** Why more than this cannot be said; null: this is all. */
  readonly unknown: string | null;
}

export interface AcpToolCall {
  readonly id: string;
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

export interface AcpTurn {
  readonly turnId: string;
  readonly sessionId: string;
  /** First, second, … that was queued in its session. */
  readonly ordinal: number;
  /** Among everything that was said in its session, messages too: that is the order of turns. */
  readonly place: number;
  readonly state: AcpTurnState;
  readonly prompt: string;
  readonly askedBy: string;
  /** From when it is sent. Null: it may take as long as it takes. */
  readonly timeoutMs: number | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Of the protocol's request. */
  readonly requestId: number | null;
  /** Who lived in the agent's tree when it began, as `pid:startTime`. */
  readonly before: readonly string[] | null;
  readonly cancel: AcpTurnCancellation | null;
  readonly outcome: AcpTurnOutcome | null;
  readonly stopReason: string | null;
  readonly problem: StoredError | null;
  readonly text: string;
  readonly toolCalls: readonly AcpToolCall[];
  readonly audit: TurnAudit | null;
  /** The agent knew nothing of what was said before. */
  readonly contextLost: boolean;
  /** Of its updates: kept, and those that came after that was enough. */
  readonly keptBytes: number;
  readonly droppedUpdates: number;
}

export type NewAcpTurn = Pick<AcpTurn, "turnId" | "prompt" | "askedBy" | "timeoutMs" | "createdAt"> & {
  /** Of the message that it is the turn of; left out: the next. */
  readonly place?: number;
};

/**
 * One thing that happened in a session, in order. `update`: the agent's `session/update`, as it came; `replay`: the
 * same, told again by an agent that was started anew; the others are ours.
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
] as const;
export type AcpUpdateType = (typeof ACP_UPDATE_TYPES)[number];

export interface AcpUpdate {
  readonly sessionId: string;
  readonly seq: number;
  readonly turnId: string | null;
  readonly at: number;
  readonly type: AcpUpdateType;
  readonly data: unknown;
}

export type NewAcpUpdate = Omit<AcpUpdate, "sessionId" | "seq">;

export interface PermissionOption {
  readonly optionId: string;
  readonly name: string;
  readonly kind: string;
}

export type PermissionVerdict = "allow" | "deny" | "cancelled" | "expired";

/** What an agent asked leave for. */
export interface AcpPermissionRequest {
  readonly id: string;
  readonly sessionId: string;
  readonly turnId: string | null;
  /** Of the agent's request. */
  readonly rpcId: string | number | null;
  readonly toolCallId: string;
  readonly kind: string | null;
  readonly title: string | null;
  readonly options: readonly PermissionOption[];
  /** Which rule decided or asked; null: none matched. */
  readonly rule: number | null;
  readonly askedAt: number;
  readonly expiresAt: number;
  readonly decision: PermissionDecision | null;
  /** The answer is on its way to the agent, or nobody waits for it any more. */
  readonly answered: boolean;
}

export interface PermissionDecision {
  readonly verdict: PermissionVerdict;
  /** Null: none was chosen, the agent is told that its question was cancelled. */
  readonly optionId: string | null;
  readonly actor: string;
  readonly at: number;
}
