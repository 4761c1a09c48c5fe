import { z } from "zod";
import { clientAccessSchema } from "../../config/client-access.js";
import { MAX_MCP_SERVERS } from "../../config/mcp.js";
import { defaults } from "../../defaults.js";
import { mcpServerSchema, promptContentSchema } from "../../model/acp/session-and-turn.js";
import { agentReportSchema } from "../../model/acp/agent-reported-state.js";
import {
  agentResumeSchema,
  agentSettingsSchema,
  storedSettingsSchema,
} from "../../model/acp/agent-settings.js";
import { ACP_MODES, REAP_POLICIES } from "../../model/enums.js";
import { execRulesSchema } from "../../model/exec/exec-rule.js";
import { endpoints } from "../endpoints.js";
import type { ErrorCode } from "../error-response.js";
import { defineRoute } from "../route.js";
import { EXEC_ERRORS } from "./exec.js";
import {
  acpPermissionSchema,
  acpSessionSchema,
  acpTurnSchema,
  acpUpdateSchema,
  closedTreeFields,
  closeReason,
  count,
  flag,
  pageLimit,
  permissionRuleSchema,
  processSchema,
  survivor,
} from "./schemas.js";
import { notifyFields } from "./tasks.js";

const key = z.string().min(1).max(200);
/** The id of a session, or the key of an open one. */
const sessionParams = z.object({ id: key });

export const PERMISSION_PRESETS = ["approve-all", "approve-reads", "deny-all"] as const;

const promptText = z
  .string()
  .min(1)
  .max(defaults.acpPromptChars)
  .refine((text) => text.trim() !== "", "must not be blank");
/** Sent before the text. Images and audio are refused if the agent does not support them. */
const content = z.array(promptContentSchema).max(defaults.acpContentParts).optional();
const word = z
  .string()
  .max(65_536)
  .refine((text) => !text.includes("\0"), "must not contain NUL");
/** Idempotency key: a repeated request with the same id is the same turn. */
const turnId = z
  .string()
  .regex(/^turn_[0-9a-z]{12}$/)
  .optional();
/** The requester does not follow the turn and is notified of its end. */
const background = z.boolean().default(false);
const timeoutMs = z.int().min(1_000).max(86_400_000).optional();
/** The agent is ended after this time without output. Default: the limit in the agent's config entry, or none. */
const noOutputTimeoutMs = timeoutMs;

export const TURN_ERRORS: readonly ErrorCode[] = [
  "ACP_NOT_HELD",
  "ACP_SESSION_CLOSED",
  "ACP_NOT_RESTARTABLE",
  "ACP_QUEUE_FULL",
  "ACP_REFUSED",
  "ACP_AUTH_REQUIRED",
  "ACP_CLOSED",
  "ACP_TIMEOUT",
];

export const acpSpawnRoute = defineRoute({
  ...endpoints.acpSpawn,
  summary: "Open an ACP session and start its agent, or find the open one with that key",
  errors: [...EXEC_ERRORS, ...TURN_ERRORS],
  audience: "session",
  body: z
    .strictObject({
      /** An agent of the catalogue. */
      agent: key.optional(),
      /** Any command that speaks ACP, instead of `agent`. */
      argv: z.array(word).min(1).max(1_000).optional(),
      /** Fetch the agent's npm package with npx, in the version of the catalogue, and run it. */
      fetch: z.boolean().default(false),
      /** Default: a new key. */
      key: key.optional(),
      agentId: key.optional(),
      parentSessionKey: key.optional(),
      cwd: z.string().min(1).max(4_096),
      /** The caller's environment; it is not stored. */
      environment: z.record(z.string(), z.string()).optional(),
      mode: z.enum(ACP_MODES).default("session"),
      /** Tried after `rules`. Default, unless `rules` is given: `approve-reads`; the operator decides the rest. */
      permissions: z.enum(PERMISSION_PRESETS).optional(),
      rules: z.array(permissionRuleSchema).max(1_000).optional(),
      reap: z.enum(REAP_POLICIES).default("asked"),
      /** Exec rules of the session, instead of those of the config. For the operator only: a child has its parent's. */
      execRules: execRulesSchema.optional(),
      /** Client features that the agent may use, instead of those of the catalogue. For the operator only. */
      client: clientAccessSchema.optional(),
      /** Settings of the agent's session; if one cannot be made, no session is opened. `mode` is the agent's. */
      settings: agentSettingsSchema.optional(),
      /** MCP servers for the agent, beside those of the config. For the operator only. */
      mcpServers: z.array(mcpServerSchema).max(MAX_MCP_SERVERS).optional(),
      /** A session that the agent has stored: it is continued, or no session is opened. `fork` is unstable in the protocol. */
      resume: agentResumeSchema.optional(),
      /** Directories of the agent's session beside `cwd`. */
      directories: z.array(z.string().min(1).max(4_096)).max(100).optional(),
      prompt: promptText.optional(),
      content,
      turnId,
      timeoutMs,
      noOutputTimeoutMs,
      /** Respond when the turn has ended. */
      wait: z.boolean().default(false),
      background,
      ...notifyFields,
    })
    .refine(({ agent, argv }) => (agent === undefined) !== (argv === undefined), {
      message: "give either agent or argv",
      path: ["agent"],
    }),
  response: z.object({ session: acpSessionSchema, created: z.boolean(), turn: acpTurnSchema.nullable() }),
});

export const acpListRoute = defineRoute({
  ...endpoints.acpList,
  summary: "List visible ACP sessions, newest first",
  audience: "session",
  query: z.strictObject({
    all: flag.optional(),
    /** Only the session with this id or name, open or closed, or with this unambiguous beginning of either. */
    name: key.optional(),
    limit: pageLimit(),
  }),
  response: z.object({ sessions: z.array(acpSessionSchema) }),
});

export const acpShowRoute = defineRoute({
  ...endpoints.acpShow,
  summary: "Get an ACP session with its turns, permission requests and processes",
  errors: ["ACP_NOT_HELD"],
  audience: "session",
  params: sessionParams,
  response: z.object({
    session: acpSessionSchema,
    /** The running and queued turns, then the last ended turn. */
    turns: z.array(acpTurnSchema),
    permissions: z.array(acpPermissionSchema),
    capabilities: z.unknown(),
    /** Null: the agent has reported nothing yet. */
    agentState: agentReportSchema.nullable(),
    /** Applied whenever the agent is started; null: none. */
    settings: storedSettingsSchema.nullable(),
    /** Client features that the agent may use. */
    client: clientAccessSchema.required(),
    /** The newest lines of the agent's standard error, without secrets. */
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
  summary: "Send a prompt to an ACP session; it is queued while another turn runs",
  errors: TURN_ERRORS,
  audience: "session",
  params: sessionParams,
  body: z.strictObject({
    text: promptText,
    content,
    turnId,
    timeoutMs,
    noOutputTimeoutMs,
    /** Respond when the turn has ended. The turn continues if the caller disconnects before. */
    wait: z.boolean().default(true),
    background,
    ...notifyFields,
  }),
  response: z.object({ turn: acpTurnSchema }),
});

export const acpCancelRoute = defineRoute({
  ...endpoints.acpCancel,
  summary: "Cancel the running turn, or a queued one; the agent keeps running",
  errors: ["ACP_NOT_HELD", "ACP_CLOSED"],
  audience: "session",
  params: sessionParams,
  body: z.strictObject({
    turnId: key.optional(),
    /** Stop the processes that the turn left behind. */
    reapTools: z.boolean().default(false),
  }),
  /** Null: no turn was running or queued. */
  response: z.object({ turn: acpTurnSchema.nullable() }),
});

export const acpCloseRoute = defineRoute({
  ...endpoints.acpClose,
  summary: "Close an ACP session and wait until its processes are gone",
  errors: ["ACP_NOT_HELD"],
  audience: "session",
  params: sessionParams,
  body: z.strictObject({
    discardPersistentState: z.boolean().default(false),
    reason: closeReason,
    /** Also close its open descendants, and stop the runs of all of them, but not services. */
    tree: z.boolean().default(false),
  }),
  /** With survivors, the session is closed later, when they are gone. */
  response: z.object({
    session: acpSessionSchema,
    survivors: z.array(survivor),
    /** The end of the agent's last run. `unproven`: the run was abandoned with its host. Null: there is no ended run. */
    emptiness: z.enum(["proven", "unproven"]).nullable(),
    ...closedTreeFields,
  }),
});

export const acpHistoryRoute = defineRoute({
  ...endpoints.acpHistory,
  summary: "List the turns of an ACP session, newest first",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    /** Only this turn. */
    turn: key.optional(),
    limit: pageLimit(),
  }),
  response: z.object({ turns: z.array(acpTurnSchema) }),
});

/**
 * A page ends with the update that brings it to 1 MiB. With `follow`, the response is a stream of the same objects, one
 * per line, until the session is closed.
 */
export const acpWatchRoute = defineRoute({
  ...endpoints.acpWatch,
  summary: "List the updates of an ACP session in order of their sequence numbers",
  audience: "session",
  params: sessionParams,
  query: z.strictObject({
    after: count.default(0),
    limit: pageLimit(500),
    follow: flag.optional(),
  }),
  response: z.object({ updates: z.array(acpUpdateSchema), after: z.int() }),
});
