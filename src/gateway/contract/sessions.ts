import { z } from "zod";
import { execRulesSchema } from "../../sessions/exec-rule-schema.js";
import type { Approval } from "../../store/approval-record.js";
import type { SessionRow } from "../../store/session-record.js";
import { flag, nothing } from "./common.js";
import { addresses } from "./addresses.js";
import { route } from "./route.js";

const key = z.string().min(1).max(200);

/** A session's row, field by field as it is stored. */
const sessionShape = z.custom<SessionRow>().meta({ type: "object", description: "a session's row" });
const approvalShape = z
  .custom<Approval>()
  .meta({ type: "object", description: "a question to the operator" });

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
    visibility: z.enum(["self", "tree", "agent", "all"]).optional(),
    execRules: execRulesSchema.optional(),
  }),
  answer: z.object({ session: sessionShape, created: z.boolean(), token: z.string() }),
});

export const listSessions = route({
  ...addresses.listSessions,
  summary: "Sessions that may be seen, newest first",
  audience: "session",
  params: nothing,
  query: z.strictObject({
    all: flag.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: nothing,
  answer: z.object({ sessions: z.array(sessionShape) }),
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

export const decideApproval = route({
  ...addresses.decideApproval,
  summary: "Answer a question",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: nothing,
  body: z.strictObject({ verdict: z.enum(["allow", "deny"]) }),
  answer: z.object({ approval: approvalShape, decided: z.boolean() }),
});
