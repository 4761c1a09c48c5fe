/** `expired`: nobody waits for an answer any more, whatever the cause. The command was not executed. */
export type ApprovalVerdict = "allow" | "deny" | "expired";

export interface ApprovalDecision {
  readonly verdict: ApprovalVerdict;
  /** Who decided; of one that expired, what ended it. */
  readonly actor: string;
  readonly at: number;
}

/** A session's question whether it may execute something. Times are wall-clock milliseconds, to be shown and nothing else. */
export interface Approval {
  readonly id: string;
  readonly sessionId: string;
  /** The gateway whose memory holds the one who waits. */
  readonly gatewayInstanceId: string;
  /** After symbolic links were resolved. */
  readonly executable: string;
  /** For display: secrets redacted. */
  readonly command: string;
  readonly cwd: string;
  /** Which of the session's rules asked; null: none matched. */
  readonly rule: number | null;
  readonly askedAt: number;
  readonly expiresAt: number;
  /** Null: pending. */
  readonly decision: ApprovalDecision | null;
}

export type NewApproval = Omit<Approval, "decision">;
