import { z } from "zod";
import { agentReportSchema } from "./agent-reported-state.js";
import { storedSettingsSchema } from "./agent-settings.js";
import {
  ACP_MODES,
  ACP_SESSION_STATES,
  ACP_TURN_OUTCOMES,
  ACP_TURN_STATES,
  ACP_UPDATE_TYPES,
  REAP_POLICIES,
} from "../enums.js";
import { permissionRuleSchema } from "./permission-rule.js";
import type { RecordOf } from "../record-type.js";
import { leftoverProcessSchema } from "../run-schema.js";

/** An error as it is stored and returned to a caller. */
export const storedErrorSchema = z.object({ code: z.string(), message: z.string() });

const mcpServerName = z.string().min(1).max(100);
const nameAndValue = z.strictObject({ name: z.string().min(1).max(200), value: z.string().max(65_536) });

/** An MCP server that the agent of a session uses, as the protocol describes it. */
export const mcpServerSchema = z.union([
  z.strictObject({
    type: z.enum(["http", "sse"]),
    name: mcpServerName,
    url: z.url({ protocol: /^https?$/ }).max(4_096),
    headers: z.array(nameAndValue).max(64),
  }),
  /** The agent starts it, and communicates with it over stdin and stdout. */
  z.strictObject({
    name: mcpServerName,
    command: z.string().min(1).max(4_096),
    args: z.array(z.string().max(65_536)).max(256),
    env: z.array(nameAndValue).max(64),
  }),
]);

const base64 = z.base64().min(4);
const mimeType = z.string().regex(/^[\w.+-]{1,100}\/[\w.+-]{1,100}$/, "must be a MIME type");
const uri = z.string().min(1).max(4_096);

/** A part of a prompt other than its text, as the protocol describes it. */
export const promptContentSchema = z.union([
  z.strictObject({ type: z.enum(["image", "audio"]), data: base64, mimeType, uri: uri.optional() }),
  z.strictObject({
    type: z.literal("resource"),
    resource: z.union([
      z.strictObject({ uri, mimeType, text: z.string() }),
      z.strictObject({ uri, mimeType, blob: base64 }),
    ]),
  }),
  z.strictObject({
    type: z.literal("resource_link"),
    uri,
    name: z.string().min(1).max(1_000),
    mimeType: mimeType.optional(),
  }),
]);

const pendingAcpRequestSchema = z.object({
  id: z.int(),
  method: z.string(),
  sentAt: z.number(),
  deadline: z.number().nullable(),
  fatal: z.boolean(),
});

/** An ACP session and the state of its connection to the agent. The record of the session itself is in `sessions`. */
export const acpSessionSchema = z.object({
  sessionId: z.string(),
  /** The only gateway that may write it. */
  gatewayInstanceId: z.string(),
  /** An agent of the catalogue; null: a command of the caller. */
  agent: z.string().nullable(),
  /** Null: not stored, because it may contain a secret, or a session named a program by its own PATH. */
  argv: z.array(z.string()).nullable(),
  /** For display. */
  command: z.string(),
  cwd: z.string(),
  mode: z.enum(ACP_MODES),
  rules: z.array(permissionRuleSchema),
  reap: z.enum(REAP_POLICIES),
  /** With the values of their variables and headers, which may be secret. */
  mcpServers: z.array(mcpServerSchema),
  state: z.enum(ACP_SESSION_STATES),
  /** The run of the last agent process. */
  runId: z.string().nullable(),
  /** Removed when that run has ended. */
  tmpdir: z.string().nullable(),
  /** The agent's own id of the session. */
  agentSessionId: z.string().nullable(),
  /** The agent's answer to `initialize`. */
  capabilities: z.unknown(),
  /** The agent's last report about its session; null: none yet. */
  agentState: agentReportSchema.nullable(),
  /** Settings that are applied again whenever the agent is started; null: none. */
  settings: storedSettingsSchema.nullable(),
  /** All of the agent's output before this offset is stored. */
  end: z.number(),
  /** The last frame that was written to the agent. */
  sending: z.object({ at: z.number(), text: z.string() }).nullable(),
  /** Requests that the agent has not answered. */
  pending: z.array(pendingAcpRequestSchema),
  /** The number of the newest update. */
  seq: z.int(),
  /** Counts the changes, so that a writer can find out whether its change was written. */
  version: z.int(),
  /** Why there is no agent process. */
  problem: storedErrorSchema.nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
  closedAt: z.number().nullable(),
});

const acpTurnCancellationSchema = z.object({
  actor: z.string(),
  at: z.number(),
  reapTools: z.boolean(),
  /** When `session/cancel` was passed to the agent. Absent: it was not. */
  sentAt: z.number().optional(),
});

/** The processes found below the agent after a turn. */
const turnAuditSchema = z.object({
  at: z.number(),
  left: z.array(leftoverProcessSchema),
  /** True if they were stopped. */
  reaped: z.boolean(),
  /** The processes that could not be stopped. */
  survivors: z.array(leftoverProcessSchema),
  /** Why the list may be incomplete; null: it is complete. */
  unknown: z.string().nullable(),
});

const acpToolCallSchema = z.object({
  id: z.string(),
  title: z.string(),
  kind: z.string(),
  status: z.string(),
});

export const acpTurnSchema = z.object({
  turnId: z.string(),
  sessionId: z.string(),
  /** The number of the turn in its session, from 1. */
  ordinal: z.int(),
  /** Its place in the session, among messages and turns. Turns run in this order. */
  place: z.int(),
  state: z.enum(ACP_TURN_STATES),
  prompt: z.string(),
  /** Sent before the text of the prompt. Null: nothing. */
  content: z.array(promptContentSchema).nullable(),
  askedBy: z.string(),
  /** Counted from when the prompt is sent. Null: no limit. */
  timeoutMs: z.int().nullable(),
  /** The agent is ended after this time without output. Null: no limit. */
  noOutputTimeoutMs: z.int().nullable(),
  /** The time of the last frame before a stall. Null: the agent is active, or the turn does not run. */
  stalledAt: z.number().nullable(),
  /** Characters at the beginning of the text that are not in `text`. */
  omittedChars: z.int(),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  /** Id of the protocol's request. */
  requestId: z.int().nullable(),
  /** The processes below the agent when the turn began, as `pid:startTime`. */
  before: z.array(z.string()).nullable(),
  cancel: acpTurnCancellationSchema.nullable(),
  outcome: z.enum(ACP_TURN_OUTCOMES).nullable(),
  stopReason: z.string().nullable(),
  problem: storedErrorSchema.nullable(),
  text: z.string(),
  toolCalls: z.array(acpToolCallSchema),
  /** Null: not audited. */
  audit: turnAuditSchema.nullable(),
  /** The agent did not know the earlier conversation. */
  contextLost: z.boolean(),
  /** Size of the updates that were stored. */
  keptBytes: z.number(),
  /** Updates that were not stored, because the turn had too many. */
  droppedUpdates: z.int(),
});

/** An entry in the ordered log of an ACP session. */
export const acpUpdateSchema = z.object({
  sessionId: z.string(),
  seq: z.int(),
  turnId: z.string().nullable(),
  at: z.number(),
  type: z.enum(ACP_UPDATE_TYPES),
  /** The agent's message, unchanged; only of an `update`. */
  data: z.unknown(),
});

export type PromptContent = RecordOf<typeof promptContentSchema>;
export type McpServer = RecordOf<typeof mcpServerSchema>;
export type StoredError = RecordOf<typeof storedErrorSchema>;

export type AcpSession = RecordOf<typeof acpSessionSchema>;
export type AcpMode = AcpSession["mode"];
export type ReapPolicy = AcpSession["reap"];

export type AcpTurn = RecordOf<typeof acpTurnSchema>;
export type AcpTurnState = AcpTurn["state"];
export type AcpTurnOutcome = NonNullable<AcpTurn["outcome"]>;
export type AcpTurnCancellation = RecordOf<typeof acpTurnCancellationSchema>;
export type TurnAudit = RecordOf<typeof turnAuditSchema>;
export type LeftoverProcess = RecordOf<typeof leftoverProcessSchema>;

export type NewAcpTurn = Pick<
  AcpTurn,
  "turnId" | "prompt" | "content" | "askedBy" | "timeoutMs" | "noOutputTimeoutMs" | "createdAt"
> & {
  /** The place of the message that the turn answers; absent: the next place. */
  readonly place?: number;
};

export type AcpUpdate = RecordOf<typeof acpUpdateSchema>;
export type AcpUpdateType = AcpUpdate["type"];
export type NewAcpUpdate = Omit<AcpUpdate, "sessionId" | "seq">;
