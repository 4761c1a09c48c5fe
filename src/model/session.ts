import { z } from "zod";
import {
  INTERACTION_MODES,
  type LEASE_STATES,
  MESSAGE_DELIVERIES,
  MESSAGE_ROLES,
  VISIBILITIES,
} from "./enums.js";
import { execRuleSchema } from "./exec-rule.js";
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

/** A message of a session. Times are wall-clock milliseconds. */
export const messageSchema = z.object({
  id: z.string(),
  sessionId: z.string(),
  /** Its place in the session, among messages and turns: from 1, without gaps when written, never used again. */
  seq: z.int(),
  role: z.enum(MESSAGE_ROLES),
  /** The session that sent it; null: none. For display only: that session may have been deleted. */
  fromSessionId: z.string().nullable(),
  actor: z.string(),
  text: z.string(),
  /** The run that took the message, or that wrote it. */
  runId: z.string().nullable(),
  /** Identifies the reason for the message. Of two messages with one cause, only the first is kept. */
  cause: z.string().nullable(),
  at: z.number(),
  deliver: z.enum(MESSAGE_DELIVERIES),
  /** The turn that takes it to the session's agent; null: none, or not yet. A failed turn releases its notices only. */
  turnId: z.string().nullable(),
  /** How many turns took this notice and failed. Whether the agent read it is unknown. */
  inVain: z.int(),
  /** When the agent answered it, or no answer was needed. Null: it waits, or its turn failed. */
  deliveredAt: z.number().nullable(),
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
