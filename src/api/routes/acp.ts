import { z } from "zod";
import { clientAccessSchema } from "../../config/client-access.js";
import { defaults } from "../../defaults.js";
import {
  ACP_MODES,
  ACP_TURN_OUTCOMES,
  ACP_SESSION_STATES,
  ACP_TURN_STATES,
  ACP_UPDATE_TYPES,
  REAP_POLICIES,
} from "../../model/enums.js";
import { endpoints } from "../endpoints.js";
import { count, flag, emptyObject, questionDigest, questionPage, questionQuery, survivor } from "./common.js";
import { defineRoute } from "../route.js";
import { notifyFields } from "./tasks.js";

const key = z.string().min(1).max(200);
/** A session's id or, while it is open, its key. */
const sessionParams = z.object({ id: key });
export const acpProblemSchema = z.object({ code: z.string(), message: z.string() });

const processSchema = z.object({
  pid: z.int(),
  startTime: z.int(),
  uniqueId: z.string().nullable(),
  command: z.string(),
});

const permissionRuleSchema = z.strictObject({
  effect: z.enum(["allow", "reject", "ask"]),
  /** The protocol's tool kind: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. */
  kind: z.string().min(1).max(100).optional(),
  /** `*` stands for any text. */
  title: z.string().min(1).max(1_000).optional(),
});

export const PERMISSION_PRESETS = ["approve-all", "approve-reads", "deny-all"] as const;

export const acpSessionSchema = z.object({
  sessionId: z.string(),
  key: z.string(),
  agentId: z.string().nullable(),
  agent: z.string().nullable(),
  command: z.string(),
  cwd: z.string(),
  mode: z.enum(ACP_MODES),
  state: z.enum(ACP_SESSION_STATES),
  gatewayInstanceId: z.string(),
  runId: z.string().nullable(),
  agentSessionId: z.string().nullable(),
  rules: z.array(permissionRuleSchema),
  reap: z.enum(REAP_POLICIES),
  problem: acpProblemSchema.nullable(),
  /** Of the newest update. */
  seq: z.int(),
  createdAt: z.number(),
  updatedAt: z.number(),
  closedAt: z.number().nullable(),
});

export const acpTurnSchema = z.object({
  turnId: z.string(),
  sessionId: z.string(),
  ordinal: z.int(),
  /** In its session's history, among messages. */
  place: z.int(),
  state: z.enum(ACP_TURN_STATES),
  prompt: z.string(),
  askedBy: z.string(),
  timeoutMs: z.int().nullable(),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  cancel: z.object({ actor: z.string(), at: z.number(), reapTools: z.boolean() }).nullable(),
  outcome: z.enum(ACP_TURN_OUTCOMES).nullable(),
  stopReason: z.string().nullable(),
  problem: acpProblemSchema.nullable(),
  text: z.string(),
  toolCalls: z.array(z.object({ id: z.string(), title: z.string(), kind: z.string(), status: z.string() })),
  /** Born in the turn and alive when it had ended; null: not looked at. */
  audit: z
    .object({
      at: z.number(),
      left: z.array(processSchema),
      reaped: z.boolean(),
      survivors: z.array(processSchema),
      /** Why more than this cannot be said; null: this is all. */
      unknown: z.string().nullable(),
    })
    .nullable(),
  contextLost: z.boolean(),
  keptBytes: z.number(),
  droppedUpdates: z.int(),
});

export const acpUpdateSchema = z.object({
  seq: z.int(),
  turnId: z.string().nullable(),
  at: z.number(),
  type: z.enum(ACP_UPDATE_TYPES),
  /** Of an `update`: what the agent said, as it came. */
  data: z.unknown(),
});

export const acpPermissionSchema = z.object({
  id: z.string(),
  sessionId: z.string(),
  turnId: z.string().nullable(),
  toolCallId: z.string(),
  kind: z.string().nullable(),
  /** While the request waits: a command in one line; a line that is too long is cut and says so. */
  title: z.string().nullable(),
  /** `whole`: the title shows the whole question, and `digest` is the question's. Null: the question does not wait at this gateway. */
  question: z.object({ whole: z.boolean(), digest: z.string().nullable() }).nullable(),
  options: z.array(z.object({ optionId: z.string(), name: z.string(), kind: z.string() })),
  rule: z.int().nullable(),
  askedAt: z.number(),
  expiresAt: z.number(),
  decision: z
    .object({
      verdict: z.enum(["allow", "deny", "cancelled", "expired"]),
      optionId: z.string().nullable(),
      actor: z.string(),
      at: z.number(),
    })
    .nullable(),
});

const promptText = z
  .string()
  .min(1)
  .max(defaults.acpPromptChars)
  .refine((text) => text.trim() !== "", "must not be blank");
const word = z
  .string()
  .max(65_536)
  .refine((text) => !text.includes("\0"), "must not contain NUL");
/** Chosen by the caller: asked again with the same, nothing is done twice. */
const turnId = z
  .string()
  .regex(/^turn_[0-9a-z]{12}$/)
  .optional();
/** Nobody reads along: whoever asked is told when it is over. */
const background = z.boolean().default(false);
const timeoutMs = z.int().min(1_000).max(86_400_000).optional();

export const acpSpawnRoute = defineRoute({
  ...endpoints.acpSpawn,
  summary: "Open an ACP session and start its agent, or find the open one of that key",
  audience: "session",
  params: emptyObject,
  query: emptyObject,
  body: z
    .strictObject({
      /** Of the catalogue. */
      agent: key.optional(),
      /** Instead: any command that speaks ACP. */
      argv: z.array(word).min(1).max(1_000).optional(),
      /** Left out: a new one. */
      key: key.optional(),
      agentId: key.optional(),
      parentSessionKey: key.optional(),
      cwd: z.string().min(1).max(4_096),
      /** The caller's, not stored. */
      environment: z.record(z.string(), z.string()).optional(),
      mode: z.enum(ACP_MODES).default("session"),
      /** Left out, with `rules`: approve-reads, and the operator is asked about the rest. */
      permissions: z.enum(PERMISSION_PRESETS).optional(),
      rules: z.array(permissionRuleSchema).max(1_000).optional(),
      reap: z.enum(REAP_POLICIES).default("asked"),
      /** What its agent may use of ours, instead of what the catalogue says. For the operator to say. */
      client: clientAccessSchema.optional(),
      prompt: promptText.optional(),
      turnId,
      timeoutMs,
      /** Answer when the prompt's turn has ended. */
      wait: z.boolean().default(false),
      background,
      ...notifyFields,
    })
    .refine(({ agent, argv }) => (agent === undefined) !== (argv === undefined), {
      message: "say which agent: agent or argv",
      path: ["agent"],
    })
    .refine(({ permissions, rules }) => permissions === undefined || rules === undefined, {
      message: "say either permissions or rules",
      path: ["rules"],
    }),
  response: z.object({ session: acpSessionSchema, created: z.boolean(), turn: acpTurnSchema.nullable() }),
});

export const acpListRoute = defineRoute({
  ...endpoints.acpList,
  summary: "ACP sessions that may be seen, newest first",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    all: flag.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  response: z.object({ sessions: z.array(acpSessionSchema) }),
});

export const acpShowRoute = defineRoute({
  ...endpoints.acpShow,
  summary: "An ACP session: its turn, its queue, its questions and its processes",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    session: acpSessionSchema,
    /** Running and queued, then the last that ended. */
    turns: z.array(acpTurnSchema),
    permissions: z.array(acpPermissionSchema),
    capabilities: z.unknown(),
    /** What the agent may use of ours. */
    client: clientAccessSchema.required(),
    /** Of the agent, the newest, secrets hidden. */
    stderr: z.string(),
    tree: z.object({
      verified: z.boolean(),
      why: z.string(),
      processes: z.array(processSchema),
    }),
  }),
});

export const acpPromptRoute = defineRoute({
  ...endpoints.acpPrompt,
  summary: "A prompt for an ACP session; queued while another is in flight",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: z.strictObject({
    text: promptText,
    turnId,
    timeoutMs,
    /** Answer when its turn has ended. Whoever leaves before does not end it. */
    wait: z.boolean().default(true),
    background,
    ...notifyFields,
  }),
  response: z.object({ turn: acpTurnSchema }),
});

export const acpCancelRoute = defineRoute({
  ...endpoints.acpCancel,
  summary: "Cancel the turn that runs, or one that is queued; the agent stays",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: z.strictObject({
    turnId: key.optional(),
    /** End the processes that the turn has left. */
    reapTools: z.boolean().default(false),
  }),
  /** Null: there was none to cancel. */
  response: z.object({ turn: acpTurnSchema.nullable() }),
});

export const acpCloseRoute = defineRoute({
  ...endpoints.acpClose,
  summary: "Close an ACP session; answers when every process of it is proven to be gone",
  audience: "session",
  params: sessionParams,
  query: emptyObject,
  body: z.strictObject({ discardPersistentState: z.boolean().default(false) }),
  /** With survivors it is not closed yet, but will be when they are gone. */
  response: z.object({
    session: acpSessionSchema,
    survivors: z.array(survivor),
    /** Of its agent's last run. `unproven`: that was given up with its host. Null: it had none, or still has. */
    emptiness: z.enum(["proven", "unproven"]).nullable(),
  }),
});

export const acpHistoryRoute = defineRoute({
  ...endpoints.acpHistory,
  summary: "The turns of an ACP session, newest first",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    /** Only that one. */
    turn: key.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  response: z.object({ turns: z.array(acpTurnSchema) }),
});

/** Not followed: one page, which ends with the update that makes it a MiB; more is asked for with the `after` it names. Followed: the same objects, one per line, until the session is closed. */
export const acpWatchRoute = defineRoute({
  ...endpoints.acpWatch,
  summary: "What happened in an ACP session, in order; replayable by number",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    after: count.default(0),
    limit: z.coerce.number().int().min(1).max(1_000).default(500),
    follow: flag.optional(),
  }),
  body: emptyObject,
  response: z.object({ updates: z.array(acpUpdateSchema), after: z.int() }),
});

export const acpPermissionsRoute = defineRoute({
  ...endpoints.acpPermissions,
  summary: "What agents ask leave for",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    session: key.optional(),
    /** Those that were decided, too. */
    all: flag.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  response: z.object({ permissions: z.array(acpPermissionSchema) }),
});

export const acpQuestionRoute = defineRoute({
  ...endpoints.acpQuestion,
  summary: "The whole of a waiting permission request, page by page",
  audience: "operator",
  params: z.object({ id: key }),
  query: questionQuery,
  body: emptyObject,
  response: z.object({ permission: acpPermissionSchema, ...questionPage }),
});

export const acpAnswerRoute = defineRoute({
  ...endpoints.acpAnswer,
  summary: "Answer an agent's question, once",
  audience: "operator",
  params: z.object({ id: key }),
  query: emptyObject,
  body: z.strictObject({ verdict: z.enum(["allow", "deny"]), digest: questionDigest }),
  response: z.object({ permission: acpPermissionSchema, decided: z.boolean() }),
});
