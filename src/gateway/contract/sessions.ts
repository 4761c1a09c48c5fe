import { z } from "zod";
import { execRulesSchema } from "../../sessions/exec-rule-schema.js";
import { ACP_MODES, ACP_STATES } from "../../store/acp-record.js";
import type { ShownApproval } from "../../sessions/approvals.js";
import { DELIVERIES, MESSAGE_ROLES, type SessionMessage } from "../../store/message-record.js";
import { VISIBILITIES, type SessionRow } from "../../store/session-record.js";
import { defaults } from "../../defaults.js";
import { count, flag, nothing, questionDigest, questionPage, questionQuery } from "./common.js";
import { acpPermission, acpTurn, problem } from "./acp.js";
import { addresses } from "./addresses.js";
import { route } from "./route.js";

const key = z.string().min(1).max(200);

/** A session's row, field by field as it is stored. */
export const sessionShape = z.custom<SessionRow>().meta({ type: "object", description: "a session's row" });
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

const messageShape: z.ZodType<SessionMessage> = z.object({
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
  deliver: z.enum(DELIVERIES),
  /** The turn that takes it to the session's agent; null: none does, or not yet. */
  turnId: z.string().nullable(),
  /** Turns that took it and came to nothing: a notice of Holdfast's own is told again. */
  inVain: z.int(),
  /** Null: it waits, or its turn came to nothing. */
  deliveredAt: z.number().nullable(),
});
/** A turn that runs or waits. */
const turnShape = z.object({
  turnId: z.string(),
  ordinal: z.int(),
  askedBy: z.string(),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
});
const approvalShape = z
  .custom<ShownApproval>()
  .meta({ type: "object", description: "a question to the operator" });

/** The token expires after this time. Default: it is valid until the session is closed or the token is rotated. */
const tokenTtlMs = z
  .int()
  .min(1_000)
  .max(366 * 86_400_000)
  .optional();

export const openSession = route({
  ...addresses.openSession,
  summary: "Open a session, or find the open one of that key; with a token that acts for it",
  audience: "operator",
  params: nothing,
  query: nothing,
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
  answer: z.object({ session: sessionShape, created: z.boolean(), token: z.string() }),
});

export const rotateToken = route({
  ...addresses.rotateToken,
  summary: "Issue a new token of a session and end its other tokens, except those of its runs",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: nothing,
  body: z.strictObject({
    tokenTtlMs,
    /** How long the other tokens stay valid. */
    graceMs: z.int().min(0).max(86_400_000).default(0),
  }),
  answer: z.object({ session: sessionShape, token: z.string() }),
});

export const listSessions = route({
  ...addresses.listSessions,
  summary: "Sessions that may be seen, newest first",
  audience: "session",
  params: nothing,
  query: z.strictObject({
    all: flag.optional(),
    visibility,
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: nothing,
  answer: z.object({ sessions: z.array(sessionShape) }),
});

export const sessionStatus = route({
  ...addresses.sessionStatus,
  summary: "How a session is: its row, its open runs, what waits for it",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({ visibility }),
  body: nothing,
  answer: z.object({
    session: sessionShape,
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
        state: z.enum(ACP_STATES),
        mode: z.enum(ACP_MODES),
        problem: problem.nullable(),
        turn: turnShape.nullable(),
        queued: z.array(turnShape),
        permissions: z.array(acpPermission),
      })
      .nullable(),
  }),
});

export const sessionHistory = route({
  ...addresses.sessionHistory,
  summary: "What was said in a session and what it did, in its order: the newest, or before or after one",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    before: count.optional(),
    after: count.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: nothing,
  answer: z.object({
    session: sessionShape,
    messages: z.array(messageShape),
    /** With their places among the messages. */
    turns: z.array(acpTurn),
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

export const sessionInbox = route({
  ...addresses.sessionInbox,
  summary: "What waits for a session, the oldest first; it goes on waiting until it is acknowledged",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    limit: z.coerce.number().int().min(1).max(defaults.inboxMessages).default(defaults.inboxMessages),
  }),
  body: nothing,
  answer: z.object({
    session: sessionShape,
    messages: z.array(messageShape),
    /** There is more, which did not fit. */
    more: z.boolean(),
  }),
});

export const acknowledgeInbox = route({
  ...addresses.acknowledgeInbox,
  summary: "Say that a session has had these: its own token does, or the operator",
  audience: "session",
  params: sessionParams,
  query: nothing,
  body: z.strictObject({
    ids: z
      .array(z.string().regex(/^msg_[0-9a-z]{12}$/, "must be a message's id"))
      .min(1)
      .max(1_000),
  }),
  answer: z.object({
    /** Those of them that waited until now. */
    acknowledged: z.array(z.string()),
  }),
});

export const sendMessage = route({
  ...addresses.sendMessage,
  summary: "Say something to a session: it wakes its agent, or waits for its next turn",
  audience: "session",
  params: sessionParams,
  query: nothing,
  body: z.strictObject({
    text: z.string().min(1).max(defaults.messageChars),
    visibility,
    /** `wake`: a prompt of its own, where the session's agent can be woken; `next-turn`: with whatever it is asked next. */
    deliver: z.enum(DELIVERIES).default("wake"),
  }),
  answer: z.object({ message: messageShape }),
});

export const closeSession = route({
  ...addresses.closeSession,
  summary: "Close a session: its tokens are dead from here on",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: nothing,
  body: nothing,
  answer: z.object({ closed: z.boolean() }),
});

export const listApprovals = route({
  ...addresses.listApprovals,
  summary:
    "Questions that wait for an answer; followed: these, then each question and each end of one, a line each",
  audience: "operator",
  params: nothing,
  query: z.strictObject({ follow: flag.optional() }),
  body: nothing,
  answer: z.object({ approvals: z.array(approvalShape) }),
});

export const showApproval = route({
  ...addresses.showApproval,
  summary: "The whole of a waiting question, page by page: argv, directory, variables, input",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: questionQuery,
  body: nothing,
  answer: z.object({ approval: approvalShape, ...questionPage }),
});

export const decideApproval = route({
  ...addresses.decideApproval,
  summary: "Answer a question",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: nothing,
  body: z.strictObject({ verdict: z.enum(["allow", "deny"]), digest: questionDigest }),
  answer: z.object({ approval: approvalShape, decided: z.boolean() }),
});
