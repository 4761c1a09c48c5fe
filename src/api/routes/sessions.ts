import { z } from "zod";
import { defaults } from "../../defaults.js";
import {
  ACP_MODES,
  ACP_SESSION_STATES,
  LEASE_STATES,
  MESSAGE_DELIVERIES,
  VISIBILITIES,
} from "../../model/enums.js";
import { execRulesSchema } from "../../model/exec/exec-rule.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import {
  acpPermissionSchema,
  acpProblemSchema,
  acpTurnSchema,
  closedTreeFields,
  closeReason,
  count,
  flag,
  messageSchema,
  pageLimit,
  sessionRowSchema,
  sessionSchema,
  textWithoutNul,
} from "./schemas.js";

const key = z.string().min(1).max(200);
/** The id of a session, or the key of an open one. */
const sessionParams = z.object({ id: textWithoutNul(200) });
/** Narrows what the requesting session sees, below its own visibility. Ignored for the operator. */
const visibility = z.enum(VISIBILITIES).optional();
const turnSummarySchema = z
  .object({
    turnId: z.string(),
    ordinal: z.int(),
    askedBy: z.string(),
    createdAt: z.number(),
    startedAt: z.number().nullable(),
  })
  .meta({ id: "TurnSummary", description: "A running or queued turn." });

/** The lifetime of the token. Default: until the session is closed or the token is rotated. */
const tokenTtlMs = z
  .int()
  .min(1_000)
  .max(366 * 86_400_000)
  .optional();

export const openSessionRoute = defineRoute({
  ...endpoints.openSession,
  summary: "Open a session, or find the open one with that key, and issue a token",
  errors: ["SESSION_TAKEN"],
  audience: "operator",
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
  summary: "Issue a new token of a session and revoke the others, except those of its runs",
  errors: ["SESSION_CLOSED"],
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  body: z.strictObject({
    tokenTtlMs,
    /** How long the other tokens stay valid. */
    graceMs: z.int().min(0).max(86_400_000).default(0),
  }),
  response: z.object({ session: sessionSchema, token: z.string() }),
});

export const listSessionsRoute = defineRoute({
  ...endpoints.listSessions,
  summary: "List visible sessions, newest first",
  audience: "session",
  query: z.strictObject({
    all: flag.optional(),
    visibility,
    limit: pageLimit(),
  }),
  response: z.object({ sessions: z.array(sessionRowSchema) }),
});

export const sessionStatusRoute = defineRoute({
  ...endpoints.sessionStatus,
  summary: "Get a session with its open runs and pending messages",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({ visibility }),
  response: z.object({
    session: sessionRowSchema,
    state: z.enum(["working", "idle", "ended"]),
    runs: z.array(
      z.object({
        runId: z.string(),
        state: z.string(),
        command: z.string(),
        createdAt: z.number(),
        leaseId: z.string(),
        leaseState: z.enum(LEASE_STATES),
      }),
    ),
    messages: z.object({
      total: z.int(),
      /** Messages that wait or are being delivered. */
      pending: z.int(),
      /** Messages whose turn failed and that are not sent again. */
      undelivered: z.int(),
      lastAt: z.number().nullable(),
    }),
    /** The ACP agent of the session. Null: it has none. */
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
  summary: "List the messages, turns and runs of a session: the newest, or those before or after a place",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    before: count.optional(),
    after: count.optional(),
    limit: pageLimit(),
  }),
  response: z.object({
    session: sessionSchema,
    messages: z.array(messageSchema),
    /** Their `place` orders them among the messages. */
    turns: z.array(acpTurnSchema),
    /** The newest commands executed for the session, without its agents' own processes. Only in the newest page. */
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
  summary: "List the messages that wait for a session, oldest first",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    visibility,
    limit: z.coerce.number().int().min(1).max(defaults.inboxMessages).default(defaults.inboxMessages),
  }),
  response: z.object({
    session: sessionSchema,
    messages: z.array(messageSchema),
    /** More messages wait. */
    more: z.boolean(),
  }),
});

export const acknowledgeInboxRoute = defineRoute({
  ...endpoints.acknowledgeInbox,
  summary: "Acknowledge messages of a session, as the session itself or as the operator",
  errors: ["SESSION_CLOSED"],
  audience: "session",
  params: sessionParams,
  body: z.strictObject({
    ids: z
      .array(z.string().regex(/^msg_[0-9a-z]{12}$/, "must be a message id"))
      .min(1)
      .max(1_000),
  }),
  response: z.object({
    /** The ids among these that were waiting. */
    acknowledged: z.array(z.string()),
  }),
});

export const sendMessageRoute = defineRoute({
  ...endpoints.sendMessage,
  summary: "Send a message to a session",
  errors: ["SESSION_CLOSED", "INBOX_FULL"],
  audience: "session",
  params: sessionParams,
  body: z.strictObject({
    text: z.string().min(1).max(defaults.messageChars),
    visibility,
    /** `wake`: as a prompt of its own if the session has an agent. `next-turn`: with the next prompt. */
    deliver: z.enum(MESSAGE_DELIVERIES).default("wake"),
  }),
  response: z.object({ message: messageSchema }),
});

export const closeSessionRoute = defineRoute({
  ...endpoints.closeSession,
  summary: "Close a session and revoke its tokens; on request with its descendants and their runs",
  errors: ["ACP_NOT_HELD"],
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: z.strictObject({
    reason: closeReason,
    /** Also close its open descendants, and stop the runs of all of them, but not services. */
    tree: flag.optional(),
  }),
  /** Without `tree`, its descendants stay open and its runs continue. */
  response: z.object({ closed: z.boolean(), ...closedTreeFields }),
});
