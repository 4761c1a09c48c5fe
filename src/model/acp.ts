import type {
  acpSessionSchema,
  acpToolCallSchema,
  acpTurnCancellationSchema,
  acpTurnSchema,
  acpUpdateSchema,
  pendingAcpRequestSchema,
  permissionDecisionSchema,
  permissionOptionSchema,
  permissionRequestSchema,
  permissionRuleSchema,
  storedErrorSchema,
  turnAuditSchema,
} from "./schema/acp.js";
import type { leftoverProcessSchema } from "./schema/process.js";
import type { RecordOf } from "./schema/record-of.js";

export type PermissionRule = RecordOf<typeof permissionRuleSchema>;
export type StoredError = RecordOf<typeof storedErrorSchema>;

export type AcpSession = RecordOf<typeof acpSessionSchema>;
export type AcpMode = AcpSession["mode"];
export type ReapPolicy = AcpSession["reap"];
export type AcpSessionState = AcpSession["state"];
export type PendingAcpRequest = RecordOf<typeof pendingAcpRequestSchema>;

export type AcpTurn = RecordOf<typeof acpTurnSchema>;
export type AcpTurnState = AcpTurn["state"];
export type AcpTurnOutcome = NonNullable<AcpTurn["outcome"]>;
export type AcpTurnCancellation = RecordOf<typeof acpTurnCancellationSchema>;
export type AcpToolCall = RecordOf<typeof acpToolCallSchema>;
export type TurnAudit = RecordOf<typeof turnAuditSchema>;
export type LeftoverProcess = RecordOf<typeof leftoverProcessSchema>;

export type NewAcpTurn = Pick<AcpTurn, "turnId" | "prompt" | "askedBy" | "timeoutMs" | "createdAt"> & {
  /** The place of the message that the turn answers; absent: the next place. */
  readonly place?: number;
};

export type AcpUpdate = RecordOf<typeof acpUpdateSchema>;
export type AcpUpdateType = AcpUpdate["type"];
export type NewAcpUpdate = Omit<AcpUpdate, "sessionId" | "seq">;

export type AcpPermissionRequest = RecordOf<typeof permissionRequestSchema>;
export type PermissionOption = RecordOf<typeof permissionOptionSchema>;
export type PermissionDecision = RecordOf<typeof permissionDecisionSchema>;
export type PermissionVerdict = PermissionDecision["verdict"];
