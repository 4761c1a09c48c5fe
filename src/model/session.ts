/** How much a session sees of the others; each level contains the one before. */
export const VISIBILITIES = ["self", "tree", "agent", "all"] as const;
export type Visibility = (typeof VISIBILITIES)[number];

export const INTERACTION_MODES = ["run", "interactive"] as const;
export type InteractionMode = (typeof INTERACTION_MODES)[number];

export const EXEC_EFFECTS = ["allow", "ask", "deny"] as const;
export type ExecEffect = (typeof EXEC_EFFECTS)[number];

/** What a session may execute. A part that is left out matches everything; how the parts match is said in sessions/exec-rules.ts. */
export interface ExecRule {
  readonly effect: ExecEffect;
  readonly executable?: string | undefined;
  readonly calledAs?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
}

/** Who a session is, whose it is, and what it may do. Times are wall-clock milliseconds. */
export interface SessionRecord {
  /** Never changes and is never used again: what belongs to a session is tied to this. */
  readonly id: string;
  /** What people call it. One open session has it at a time; a later one of the same key inherits nothing. */
  readonly key: string;
  readonly agentId: string | null;
  readonly ownerSessionKey: string | null;
  readonly spawnedBy: string | null;
  readonly parentSessionKey: string | null;
  /** Ids of all ancestors: the three above, where they named open sessions at creation, and all of theirs. */
  readonly lineage: readonly string[];
  readonly backend: string | null;
  readonly gatewayInstanceId: string;
  readonly interactionMode: InteractionMode;
  readonly sandboxed: boolean;
  readonly visibility: Visibility;
  /** In order: the first that matches decides. */
  readonly execRules: readonly ExecRule[];
  readonly createdAt: number;
  /** Set: a tombstone, kept while something refers to it. */
  readonly closedAt: number | null;
  /** What its agent's own command calls it, to go on with it; null: it has not said. */
  readonly agentSessionId: string | null;
}

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
