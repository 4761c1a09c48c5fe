import { z } from "zod";
import { INTERACTION_MODES, type LEASE_STATES, VISIBILITIES } from "./enums.js";
import { execRuleSchema } from "./exec/exec-rule.js";
import type { RecordOf } from "./record-type.js";

/** A session's record. Times are wall-clock milliseconds. */
export const sessionSchema = z.object({
  /** Never changes and is never used again: everything that belongs to a session refers to its id. */
  id: z.string(),
  /** The name for people. At most one open session has it; a later session with the same key inherits nothing. */
  key: z.string(),
  agentId: z.string().nullable(),
  ownerSessionKey: z.string().nullable(),
  spawnedBy: z.string().nullable(),
  parentSessionKey: z.string().nullable(),
  /** Ids of all ancestors: the three above, if they named open sessions at creation, and the ancestors of those. */
  lineage: z.array(z.string()),
  backend: z.string().nullable(),
  gatewayInstanceId: z.string(),
  interactionMode: z.enum(INTERACTION_MODES),
  sandboxed: z.boolean(),
  visibility: z.enum(VISIBILITIES),
  /** In order: the first rule that matches decides. */
  execRules: z.array(execRuleSchema),
  createdAt: z.number(),
  /** Not null: the session is closed. Its record is kept while others refer to it. */
  closedAt: z.number().nullable(),
  /** The actor that closed it, or began to; null: it is open, or an earlier version closed it. */
  closedBy: z.string().nullable(),
  /** Why it was closed, in the words of the actor; null: no reason was given. */
  closeReason: z.string().nullable(),
  /** The id that the agent's own command uses to resume the session; null: the agent did not report one. */
  agentSessionId: z.string().nullable(),
});

export type SessionRecord = RecordOf<typeof sessionSchema>;
/** A session with the lease of its agent's last run; null: it has no agent, or no run yet. */
export type SessionRow = SessionRecord & {
  readonly leaseId: string | null;
  readonly leaseState: (typeof LEASE_STATES)[number] | null;
};
export type Visibility = SessionRecord["visibility"];
export type InteractionMode = SessionRecord["interactionMode"];
export type NewSession = Omit<SessionRecord, "closedAt" | "closedBy" | "closeReason" | "agentSessionId">;

/** The sessions that one session may see. Made by `visibleSessions` (sessions/visibility.ts), applied in SQL. */
export interface SessionScope {
  /** The session itself. */
  readonly sessionId: string;
  /** Also every session that has it in its lineage. */
  readonly descendants: boolean;
  /** Also every session of these agents; `any`: every session. */
  readonly agentIds: readonly string[] | "any";
}
