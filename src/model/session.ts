import type { execRuleSchema } from "./schema/exec-rule.js";
import type { RecordOf } from "./schema/record-of.js";
import type {
  approvalDecisionSchema,
  approvalSchema,
  messageSchema,
  sessionSchema,
} from "./schema/session.js";

/** A rule on the commands of a session. A part that is absent matches everything; sessions/exec-policy.ts matches them. */
export type ExecRule = RecordOf<typeof execRuleSchema>;
export type ExecEffect = ExecRule["effect"];

export type SessionRecord = RecordOf<typeof sessionSchema>;
export type Visibility = SessionRecord["visibility"];
export type InteractionMode = SessionRecord["interactionMode"];
export type NewSession = Omit<SessionRecord, "closedAt" | "agentSessionId">;

/** The sessions that one session may see. Made by `visibleSessions` (sessions/can-see.ts), applied in SQL. */
export interface SessionScope {
  /** The session itself. */
  readonly sessionId: string;
  /** Also every session that has it in its lineage. */
  readonly descendants: boolean;
  /** Also every session of these agents; `any`: every session. */
  readonly agentIds: readonly string[] | "any";
}

export type SessionMessage = RecordOf<typeof messageSchema>;
export type MessageRole = SessionMessage["role"];
export type MessageDelivery = SessionMessage["deliver"];
export type NewMessage = Omit<SessionMessage, "seq">;

export type Approval = RecordOf<typeof approvalSchema>;
export type ApprovalDecision = RecordOf<typeof approvalDecisionSchema>;
export type ApprovalVerdict = ApprovalDecision["verdict"];
export type NewApproval = Omit<Approval, "decision">;

/** The backend of sessions whose agent is a command for one prompt at a time. */
export const CLI_BACKEND = "cli";
