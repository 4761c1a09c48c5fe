import type {
  Approval,
  ApprovalDecision,
  NewApproval,
  NewSession,
  SessionRecord,
  SessionScope,
} from "../../model/session.js";

export interface TokenOptions {
  /** The token is for a run that is being started. */
  readonly ofRun?: boolean;
  readonly expiresAt?: number | null;
}

export interface SessionFilter {
  /** Leave tombstones out, or show nothing else. */
  readonly open?: boolean;
  readonly agentId?: string;
  readonly backend?: string;
  readonly agentSessionId?: string;
  /** Nothing has been said in it since; nor was it made since. */
  readonly idleSince?: number;
  /** All that ever had this key. */
  readonly key?: string;
  readonly seenBy?: SessionScope;
  /** Newest first. */
  readonly limit?: number;
}

export interface ApprovalFilter {
  readonly pending?: boolean;
  readonly sessionId?: string;
  readonly gatewayInstanceId?: string;
  /** Oldest first: it expires first. */
  readonly limit?: number;
}

/** Sessions, the tokens that act for them, and what they asked leave for. */
export interface SessionStore {
  /** Idempotent per key: an open session of the same key is answered as it is, and nothing is written. */
  createSession(session: NewSession): Promise<{ readonly session: SessionRecord; readonly created: boolean }>;
  /**
   * Put back a session that the store has lost, without tokens. False, and nothing is written, if the session exists or
   * another open session has its key.
   */
  restoreSession(session: SessionRecord): Promise<boolean>;
  getSession(id: string): Promise<SessionRecord | null>;
  /** The open one of this key. */
  getSessionByKey(key: string): Promise<SessionRecord | null>;
  listSessions(filter: SessionFilter): Promise<readonly SessionRecord[]>;
  /** How its agent's own command goes on with it. False when it is not open. */
  setAgentSessionId(id: string, agentSessionId: string): Promise<boolean>;
  /**
   * In one transaction: a tombstone from now on, its tokens dead, its pending approvals expired.
   * False, and nothing written, when it is closed already or was never there.
   */
  closeSession(id: string, actor: string, at: number): Promise<boolean>;
  /**
   * Forget those closed before, with their approvals. Kept are those that something still refers to:
   * a run, a session that stays by its lineage. Returns how many went.
   */
  deleteClosedSessions(closedBefore: number): Promise<number>;

  /** The size of the session's runs and tasks. */
  storedBytesOfSession(sessionId: string): Promise<number>;

  /** Only the hash of a token is ever known here. False when the session is not open. */
  issueToken(sessionId: string, hash: string, at: number, facts?: TokenOptions): Promise<boolean>;
  /** Bind a token to a run, with which it ends. False: there is no such token. */
  bindToken(hash: string, runId: string): Promise<boolean>;
  /**
   * In one transaction: add a new token of the session, and end its other tokens, at once or at `endAt`. Tokens of its
   * runs stay. False: the session is not open.
   */
  rotateTokens(
    sessionId: string,
    hash: string,
    at: number,
    facts: { readonly expiresAt: number | null; readonly endAt: number },
  ): Promise<boolean>;
  /** The open session that the token acts for. Null also when the token has expired, or its run has ended. */
  resolveToken(hash: string, now: number): Promise<SessionRecord | null>;
  /** Remove tokens that have expired, whose run has ended, or whose run was never started. Returns how many. */
  deleteEndedTokens(now: number): Promise<number>;
  /** The hash of a token of an open session, by its first hexadecimal digits. */
  findTokenHash(prefix: string): Promise<string | null>;
  /** False when there was none. */
  revokeToken(hash: string): Promise<boolean>;

  /** False, and nothing written, when the session is not open: nobody may act for it any more. */
  insertApproval(approval: NewApproval): Promise<boolean>;
  /** Exactly once: false, and nothing written, when it is decided already or was never there. */
  decideApproval(id: string, decision: ApprovalDecision): Promise<boolean>;
  /** Those of them that were still pending; the others keep what was decided. Which have expired is the caller's clock's business. */
  expireApprovals(ids: readonly string[], actor: string, at: number): Promise<readonly string[]>;
  getApproval(id: string): Promise<Approval | null>;
  listApprovals(filter: ApprovalFilter): Promise<readonly Approval[]>;
  /** Forget decided ones. Returns how many. */
  deleteDecidedApprovals(decidedBefore: number): Promise<number>;
}
