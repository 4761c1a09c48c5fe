import { z } from "zod";
import type { RecordOf } from "../record-type.js";

const approvalDecisionSchema = z.object({
  /** `expired`: the caller no longer waits, for whatever reason. The command was not executed. */
  verdict: z.enum(["allow", "deny", "expired"]),
  /** The operator that decided, or the reason of the expiry. */
  actor: z.string(),
  at: z.number(),
});

/** A session's request to execute a command. Times are wall-clock milliseconds, for display only. */
export const approvalSchema = z.object({
  id: z.string(),
  sessionId: z.string(),
  /** The gateway at which the caller waits. */
  gatewayInstanceId: z.string(),
  /** With symbolic links resolved. */
  executable: z.string(),
  /** For display: secrets redacted. */
  command: z.string(),
  cwd: z.string(),
  /** Index of the session's rule that asked; null: no rule matched. */
  rule: z.int().nullable(),
  askedAt: z.number(),
  expiresAt: z.number(),
  /** Null: pending. */
  decision: approvalDecisionSchema.nullable(),
});

export type Approval = RecordOf<typeof approvalSchema>;
export type ApprovalDecision = RecordOf<typeof approvalDecisionSchema>;
export type NewApproval = Omit<Approval, "decision">;
