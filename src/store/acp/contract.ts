import type {
  AcpSession,
  AcpTurn,
  AcpTurnState,
  AcpUpdate,
  AcpUpdateType,
  NewAcpTurn,
  NewAcpUpdate,
} from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest, PermissionDecision } from "../../model/acp/permission-request.js";
import type { RememberedRule } from "../../model/acp/permission-rule.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { SessionScope } from "../../model/session.js";

export type AcpSessionPatch = Partial<
  Omit<AcpSession, "sessionId" | "seq" | "version" | "createdAt" | "updatedAt">
>;
export type AcpTurnPatch = Partial<
  Omit<
    AcpTurn,
    "turnId" | "sessionId" | "ordinal" | "place" | "prompt" | "timeoutMs" | "noOutputTimeoutMs" | "createdAt"
  >
>;

/** A change of an ACP session. All of it is written, or nothing. */
export interface AcpChange {
  /** The expected version of the session. */
  readonly version?: number;
  readonly session?: AcpSessionPatch;
  readonly newTurn?: NewAcpTurn;
  /** Changes of turns that are in the state `from`. */
  readonly turns?: readonly {
    readonly turnId: string;
    readonly from: AcpTurnState;
    readonly set: AcpTurnPatch;
  }[];
  /** Waiting messages that the turn takes to the agent. A new turn is made only if all of them still wait. */
  readonly take?: { readonly turnId: string; readonly messages: readonly string[] };
  /** The turn whose messages were answered, and when. A turn that ends without an answer releases its notices. */
  readonly delivered?: { readonly turnId: string; readonly at: number };
  readonly updates?: readonly NewAcpUpdate[];
  readonly newPermission?: AcpPermissionRequest;
  /** Decisions on pending requests. */
  readonly decide?: readonly { readonly id: string; readonly decision: PermissionDecision }[];
  /** Permission requests whose answers were sent. */
  readonly answered?: readonly string[];
  /** The rule that the decision is to be remembered by. */
  readonly newRule?: RememberedRule;
  readonly events?: readonly NewRunEvent[];
}

export interface AcpSessionFilter {
  /** Only these sessions. */
  readonly sessionIds?: readonly string[];
  readonly open?: boolean;
  readonly gatewayInstanceId?: string;
  readonly runId?: string;
  readonly seenBy?: SessionScope;
  /** Newest first. */
  readonly limit?: number;
}

export interface AcpTurnFilter {
  readonly sessionId: string;
  readonly states?: readonly AcpTurnState[];
  /** Places of turns. */
  readonly after?: number;
  readonly before?: number;
  readonly newestFirst?: boolean;
  readonly limit?: number;
}

export interface AcpUpdateFilter {
  readonly sessionId: string;
  readonly after?: number;
  readonly turnId?: string;
  readonly type?: AcpUpdateType;
  readonly limit?: number;
  /** Stops after the update that reaches this size. */
  readonly maxBytes?: number;
}

export interface AcpPermissionRequestFilter {
  readonly sessionId?: string;
  readonly pending?: boolean;
  readonly answered?: boolean;
  readonly seenBy?: SessionScope;
  /** Default: the oldest first, which expires first. */
  readonly newestFirst?: boolean;
  readonly limit?: number;
}

export interface RememberedRuleFilter {
  readonly sessionId?: string;
  readonly agent?: string;
  /** The rules that apply to a session of this agent: its own and the agent's, none of them revoked. */
  readonly appliesTo?: { readonly sessionId: string; readonly agent: string | null };
  /** True: also revoked rules. */
  readonly revoked?: boolean;
  readonly limit?: number;
}

export interface AcpReads {
  getAcpSession(sessionId: string): Promise<AcpSession | null>;
  listAcpSessions(filter: AcpSessionFilter): Promise<readonly AcpSession[]>;
  getAcpTurn(turnId: string): Promise<AcpTurn | null>;
  /** Oldest first by default. */
  listAcpTurns(filter: AcpTurnFilter): Promise<readonly AcpTurn[]>;
  /** In order. */
  listAcpUpdates(filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]>;
  getAcpPermissionRequest(id: string): Promise<AcpPermissionRequest | null>;
  /** Oldest first. */
  listAcpPermissionRequests(filter: AcpPermissionRequestFilter): Promise<readonly AcpPermissionRequest[]>;
  getRememberedRule(id: string): Promise<RememberedRule | null>;
  /** Newest first. */
  listRememberedRules(filter: RememberedRuleFilter): Promise<readonly RememberedRule[]>;
}

export interface AcpWrites {
  /** False, and nothing written: the session exists. */
  insertAcpSession(session: AcpSession): Promise<boolean>;
  /**
   * Writes a change in one transaction, as the gateway that has the session. Returns the number of the newest update.
   * Null, and nothing written: another gateway has the session, a turn or permission request is not in the expected
   * state, or the new turn exists.
   */
  commitAcpChange(sessionId: string, gatewayInstanceId: string, change: AcpChange): Promise<number | null>;
  insertRememberedRule(rule: RememberedRule): Promise<void>;
  /** False: there is no such rule, or it is revoked already. */
  revokeRememberedRule(id: string, actor: string, at: number): Promise<boolean>;
  /** Deletes the updates of turns that ended before; the turns stay. Returns how many. */
  deleteAcpUpdates(endedBefore: number): Promise<number>;
}

export interface AcpStore extends AcpReads, AcpWrites {}
