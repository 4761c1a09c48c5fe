import type {
  AcpPermissionRequest,
  AcpSession,
  AcpTurn,
  AcpTurnState,
  AcpUpdate,
  AcpUpdateType,
  NewAcpTurn,
  NewAcpUpdate,
  PermissionDecision,
} from "../../model/acp.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { SessionScope } from "../../model/session.js";

export type AcpSessionPatch = Partial<
  Omit<AcpSession, "sessionId" | "seq" | "version" | "createdAt" | "updatedAt">
>;
export type AcpTurnPatch = Partial<
  Omit<AcpTurn, "turnId" | "sessionId" | "ordinal" | "place" | "prompt" | "timeoutMs" | "createdAt">
>;

/** Everything that is true from here on: all of it is written, or nothing. */
export interface AcpChange {
  /** Only while nothing has been written since. */
  readonly version?: number;
  readonly session?: AcpSessionPatch;
  readonly newTurn?: NewAcpTurn;
  /** Of turns in that state only. */
  readonly turns?: readonly {
    readonly turnId: string;
    readonly from: AcpTurnState;
    readonly set: AcpTurnPatch;
  }[];
  /** Messages that go with a turn, each with one only: those that wait. A new turn is of messages that do, or is not made. */
  readonly take?: { readonly turnId: string; readonly messages: readonly string[] };
  /** The turn whose messages have been answered, and when. A turn that ends without lets go of its notices. */
  readonly delivered?: { readonly turnId: string; readonly at: number };
  readonly updates?: readonly NewAcpUpdate[];
  readonly newPermission?: AcpPermissionRequest;
  /** Of one that is pending only. */
  readonly decide?: readonly { readonly id: string; readonly decision: PermissionDecision }[];
  /** Permissions whose answers are on their way. */
  readonly answered?: readonly string[];
  readonly events?: readonly NewRunEvent[];
}

export interface AcpSessionFilter {
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
  /** By their places. */
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
  /** No further update is begun once there are so many bytes. The first is there, however large. */
  readonly maxBytes?: number;
}

export interface AcpPermissionRequestFilter {
  readonly sessionId?: string;
  readonly pending?: boolean;
  readonly answered?: boolean;
  readonly seenBy?: SessionScope;
  readonly limit?: number;
}

/** Conversations with agents over ACP. */
export interface AcpStore {
  /** False, and nothing written: it is there. */
  insertAcpSession(session: AcpSession): Promise<boolean>;
  /**
   * Write a change in one transaction, as the gateway that has the session. Null, and nothing written: another has it,
   * or one of the turns or questions is not in the state it was thought to be, or a new turn is there. Else the number
   * of the newest update.
   */
  commitAcpChange(sessionId: string, gatewayInstanceId: string, change: AcpChange): Promise<number | null>;
  getAcpSession(sessionId: string): Promise<AcpSession | null>;
  listAcpSessions(filter: AcpSessionFilter): Promise<readonly AcpSession[]>;
  getAcpTurn(turnId: string): Promise<AcpTurn | null>;
  /** Oldest first, unless told otherwise. */
  listAcpTurns(filter: AcpTurnFilter): Promise<readonly AcpTurn[]>;
  /** In order. */
  listAcpUpdates(filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]>;
  getAcpPermissionRequest(id: string): Promise<AcpPermissionRequest | null>;
  /** Oldest first. */
  listAcpPermissionRequests(filter: AcpPermissionRequestFilter): Promise<readonly AcpPermissionRequest[]>;
  /** Forget the updates of turns that ended before; what came of the turns stays. Returns how many. */
  deleteAcpUpdates(endedBefore: number): Promise<number>;
}
