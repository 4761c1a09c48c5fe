import { z } from "zod";
import { execRulesSchema } from "../../model/schema/exec-rule.js";
import {
  ACP_MODES,
  ACP_SESSION_STATES,
  MESSAGE_DELIVERIES,
  MESSAGE_ROLES,
  VISIBILITIES,
} from "../../model/enums.js";
import type { ApprovalView } from "../../sessions/approvals.js";
import type { SessionMessage, SessionRecord } from "../../model/session.js";
import { defaults } from "../../defaults.js";
import { count, flag, emptyObject, questionDigest, questionPage, questionQuery } from "./common.js";
import { acpPermissionSchema, acpTurnSchema, acpProblemSchema } from "./acp.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";

const key = z.string().min(1).max(200);

/** A session's row, field by field as it is stored. */
export const sessionSchema = z
  .custom<SessionRecord>()
  .meta({ type: "object", description: "a session's row" });
/** Its id, or the key that an open one has. */
const sessionParams = z.object({
  id: z
    .string()
    .min(1)
    .max(200)
    .refine((text) => !text.includes("\0"), "must be text without NUL"),
});
/** Of a session that asks: no more than this, whatever its own level. The operator sees everything. */
const visibility = z.enum(VISIBILITIES).optional();

const messageSchema: z.ZodType<SessionMessage> = z.object({
  id: z.string(),
  sessionId: z.string(),
  seq: z.int(),
  role: z.enum(MESSAGE_ROLES),
  fromSessionId: z.string().nullable(),
  actor: z.string(),
  text: z.string(),
  runId: z.string().nullable(),
  cause: z.string().nullable(),
  at: z.number(),
  deliver: z.enum(MESSAGE_DELIVERIES),
  /** The turn that takes it to the session's agent; null: none does, or not yet. */
  turnId: z.string().nullable(),
  /** Turns that took it and came to nothing: a notice of Holdfast's own is told again. */
  inVain: z.int(),
  /** Null: it waits, or its turn came to nothing. */
  deliveredAt: z.number().nullable(),
});
/** A turn that runs or waits. */
const turnSummarySchema = z.object({
  turnId: z.string(),
  ordinal: z.int(),
  askedBy: z.string(),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
});
const approvalSchema = z
  .custom<ApprovalView>()
  .meta({ type: "object", description: "a question to the operator" });

/** The token expires after this time. Default: it is valid until the session is closed or the token is rotated. */
const tokenTtlMs = z
  .int()
  .min(1_000)
  .max(366 * 86_400_000)
  .optional();

export const openSessionRoute = defineRoute({
  ...endpoints.openSession,
  summary: "Open a session, or find the open one of that key; with a token that acts for it",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: z.strictObject({
    key,
    agentId: key.optional(),
    parentSessionKey: key.optional(),
    ownerSessionKey: key.optional(),
    spawnedBy: key.optional(),
    interactionMode: z.enum(["run", "interactive"]).optional(),
    sandboxed: z.boolean().optional(),
    visibility,
    execRules: execRulesSchema.optional(),
    tokenTtlMs,
  }),
  response: z.object({ session: sessionSchema, created: z.boolean(), token: z.string() }),
});

export const rotateTokenRoute = defineRoute({
  ...endpoints.rotateToken,
  summary: "Issue a new token of a session and end its other tokens, except those of its runs",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: emptyObject,
  body: z.strictObject({
    tokenTtlMs,
    /** How long the other tokens stay valid. */
    graceMs: z.int().min(0).max(86_400_000).default(0),
  }),
  response: z.object({ session: sessionSchema, token: z.string() }),
});

export const listSessionsRoute = defineRoute({
  ...endpoints.listSessions,
  summary: "Sessions that may be seen, newest first",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    all: flag.optional(),
    visibility,
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  response: z.object({ sessions: z.array(sessionSchema) }),
});

export const sessionStatusRoute = defineRoute({
  ...endpoints.sessionStatus,
  summary: "How a session is: its row, its open runs, what waits for it",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({ visibility }),
  body: emptyObject,
  response: z.object({
    session: sessionSchema,
    state: z.enum(["working", "idle", "ended"]),
    runs: z.array(
      z.object({ runId: z.string(), state: z.string(), command: z.string(), createdAt: z.number() }),
    ),
    messages: z.object({
      total: z.int(),
      /** Not delivered: they wait, or are on their way. */
      pending: z.int(),
      /** Taken to the agent by a turn that came to nothing; not sent again. */
      undelivered: z.int(),
      lastAt: z.number().nullable(),
    }),
    /** Of an agent that is spoken to over ACP; null: it has none. */
    acp: z
      .object({
        state: z.enum(ACP_SESSION_STATES),
        mode: z.enum(ACP_MODES),
        problem: acpProblemSchema.nullable(),
        turn: turnSummarySchema.nullable(),
        queued: z.array(turnSummarySchema),
        permissions: z.array(acpPermissionSchema),
      })
      .nullable(),
  }),
});

export const sessionHistoryRoute = defineRoute({
  ...endpoints.sessionHistory,
  summary: "What was said in a session and what it did, in its order: the newest, or before or after one",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    before: count.optional(),
    after: count.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  response: z.object({
    session: sessionSchema,
    messages: z.array(messageSchema),
    /** With their places among the messages. */
    turns: z.array(acpTurnSchema),
    /** Commands that were executed for it, its agents' own left out: the newest, and only with the newest page. */
    runs: z.array(
      z.object({
        runId: z.string(),
        state: z.string(),
        command: z.string(),
        createdAt: z.number(),
        endedAt: z.number().nullable(),
        exit: z
          .object({ reason: z.string(), code: z.int().nullable(), signal: z.string().nullable() })
          .nullable(),
      }),
    ),
  }),
});

export const sessionInboxRoute = defineRoute({
  ...endpoints.sessionInbox,
  summary: "What waits for a session, the oldest first; it goes on waiting until it is acknowledged",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    limit: z.coerce.number().int().min(1).max(defaults.inboxMessages).default(defaults.inboxMessages),
  }),
  body: emptyObject,
  response: z.object({
    session: sessionSchema,
    messages: z.array(messageSchema),
    /** There is more, which did not fit. */
    more: z.boolean(),
  }),
});

export const acknowledgeInboxRoute = defineRoute({
  ...endpoints.acknowledgeInbox,
  summary: "Say that a session has had these: its own token does, or the operator",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: z.strictObject({
    ids: z
      .array(z.string().regex(/^msg_[0-9a-z]{12}$/, "must be a message's id"))
      .min(1)
      .max(1_000),
  }),
  response: z.object({
    /** Those of them that waited until now. */
    acknowledged: z.array(z.string()),
  }),
});

export const sendMessageRoute = defineRoute({
  ...endpoints.sendMessage,
  summary: "Say something to a session: it wakes its agent, or waits for its next turn",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: z.strictObject({
    text: z.string().min(1).max(defaults.messageChars),
    visibility,
    /** `wake`: a prompt of its own, where the session's agent can be woken; `next-turn`: with whatever it is asked next. */
    deliver: z.enum(MESSAGE_DELIVERIES).default("wake"),
  }),
  response: z.object({ message: messageSchema }),
});

export const closeSessionRoute = defineRoute({
  ...endpoints.closeSession,
  summary: "Close a session: its tokens are dead from here on",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: emptyObject,
  body: emptyObject,
  response: z.object({ closed: z.boolean() }),
});

export const listApprovalsRoute = defineRoute({
  ...endpoints.listApprovals,
  summary:
    "Questions that wait for an answer; followed: these, then each question and each end of one, a line each",
  audience: "operator",
  params: emptyObject,
  query: z.strictObject({ follow: flag.optional() }),
  body: emptyObject,
  response: z.object({ approvals: z.array(approvalSchema) }),
});

export const showApprovalRoute = defineRoute({
  ...endpoints.showApproval,
  summary: "The whole of a waiting question, page by page: argv, directory, variables, input",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: questionQuery,
  body: emptyObject,
  response: z.object({ approval: approvalSchema, ...questionPage }),
});

export const decideApprovalRoute = defineRoute({
  ...endpoints.decideApproval,
  summary: "Answer a question",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: emptyObject,
  body: z.strictObject({ verdict: z.enum(["allow", "deny"]), digest: questionDigest }),
  response: z.object({ approval: approvalSchema, decided: z.boolean() }),
});
