import type { Approval, ApprovalDecision, NewApproval } from "../../model/exec/approval.js";
import type { NewSession, SessionRecord, SessionScope } from "../../model/session.js";

export interface TokenOptions {
  /** The token is for a run that is being started. */
  readonly ofRun?: boolean;
  readonly expiresAt?: number | null;
}

export interface SessionFilter {
  /** Only open sessions, or only closed ones. */
  readonly open?: boolean;
  readonly agentId?: string;
  readonly backend?: string;
  readonly agentSessionId?: string;
  /** Created before, and without a message since. */
  readonly idleSince?: number;
  /** All sessions that ever had this key. */
  readonly key?: string;
  /** The last part of the key, after a `/`; or the beginning of the key or, with or without `ses_`, of the id. */
  readonly abbreviation?: string;
  readonly seenBy?: SessionScope;
  /** Newest first. */
  readonly limit?: number;
}

export interface ApprovalFilter {
  readonly pending?: boolean;
  readonly sessionId?: string;
  readonly gatewayInstanceId?: string;
  /** Default: the oldest first, which expires first. */
  readonly newestFirst?: boolean;
  readonly limit?: number;
}

export interface SessionReads {
  getSession(id: string): Promise<SessionRecord | null>;
  /** The open session with this key. */
  getSessionByKey(key: string): Promise<SessionRecord | null>;
  listSessions(filter: SessionFilter): Promise<readonly SessionRecord[]>;
  /** The size of the session's runs and tasks. */
  storedBytesOfSession(sessionId: string): Promise<number>;
  /** The open session that the token acts for. Null also if the token has expired, or its run has ended. */
  resolveToken(hash: string, now: number): Promise<SessionRecord | null>;
  /** The hash of a token of an open session, by its first hexadecimal digits. */
  findTokenHash(prefix: string): Promise<string | null>;
  getApproval(id: string): Promise<Approval | null>;
  listApprovals(filter: ApprovalFilter): Promise<readonly Approval[]>;
}

export interface SessionWrites {
  /** Idempotent per key: if a session with the key is open, nothing is written and that session is returned. */
  createSession(session: NewSession): Promise<{ readonly session: SessionRecord; readonly created: boolean }>;
  /**
   * Restores a session that the store has lost, without tokens. False, and nothing written: the session exists, or
   * another open session has its key.
   */
  restoreSession(session: SessionRecord): Promise<boolean>;
  /** Sets the id that the agent's own command uses to resume the session. False: the session is not open. */
  setAgentSessionId(id: string, agentSessionId: string): Promise<boolean>;
  /**
   * Records who closes an open session, and why, before it is closed: closing an agent takes time. The first record
   * stays.
   */
  recordSessionClosing(id: string, actor: string, reason: string | null): Promise<void>;
  /**
   * Closes the session, deletes its tokens and expires its pending approvals in one transaction. False, and nothing
   * written: the session is not open.
   */
  closeSession(id: string, actor: string, at: number, reason?: string | null): Promise<boolean>;
  /**
   * Deletes sessions that were closed before, with their approvals. A session that a run, a task or the lineage of a
   * remaining session refers to is kept. Returns how many.
   */
  deleteClosedSessions(closedBefore: number): Promise<number>;

  /** Only the hash of a token is stored. False: the session is not open. */
  issueToken(sessionId: string, hash: string, at: number, options?: TokenOptions): Promise<boolean>;
  /** Binds a token to a run: it ends with the run. False: there is no such token. */
  bindToken(hash: string, runId: string): Promise<boolean>;
  /**
   * In one transaction: adds a token of the session, and ends its other tokens, at once or at `endAt`. Tokens of its runs
   * stay. False: the session is not open.
   */
  rotateTokens(
    sessionId: string,
    hash: string,
    at: number,
    options: { readonly expiresAt: number | null; readonly endAt: number },
  ): Promise<boolean>;
  /** Deletes tokens that have expired, whose run has ended, or whose run was never started. Returns how many. */
  deleteEndedTokens(now: number): Promise<number>;
  /** False: there is no such token. */
  revokeToken(hash: string): Promise<boolean>;

  /** False, and nothing written: the session is not open. */
  insertApproval(approval: NewApproval): Promise<boolean>;
  /** False, and nothing written: the approval is decided already, or does not exist. */
  decideApproval(id: string, decision: ApprovalDecision): Promise<boolean>;
  /** Expires approvals that are pending; decided ones stay. Returns the expired ids. The caller's clock decides which. */
  expireApprovals(ids: readonly string[], actor: string, at: number): Promise<readonly string[]>;
  /** Deletes approvals that were decided before. Returns how many. */
  deleteDecidedApprovals(decidedBefore: number): Promise<number>;
}

export interface SessionStore extends SessionReads, SessionWrites {}
