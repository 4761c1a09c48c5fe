import { z } from "zod";
import {
  acpSessionSchema as acpSessionRecord,
  acpTurnSchema as acpTurnRecord,
  acpUpdateSchema as acpUpdateRecord,
  storedErrorSchema,
} from "../../model/acp/session-and-turn.js";
import { permissionRequestSchema } from "../../model/acp/permission-request.js";
import { LEASE_STATES } from "../../model/enums.js";
import {
  permissionRuleSchema as permissionRule,
  rememberedRuleSchema,
} from "../../model/acp/permission-rule.js";
import { gatewaySchema as gatewayRecord, type GatewayWithStatus } from "../../model/gateway.js";
import { leftoverProcessSchema, runSchema as runRecord, survivorSchema } from "../../model/run-schema.js";
import type { RunRecord } from "../../model/run.js";
import { approvalSchema as approvalRecord } from "../../model/exec/approval.js";
import { type SessionRecord, type SessionRow, sessionSchema as sessionRecord } from "../../model/session.js";
import { messageSchema as messageRecord, type SessionMessage } from "../../model/session-message.js";
import { taskEventSchema as taskEventRecord, taskSchema as taskRecord } from "../../model/task-schema.js";
import { notificationSchema, outboxEntrySchema } from "../../model/outbox-schema.js";
import type { TaskRecord } from "../../model/task.js";
import type { ApprovalView } from "../../sessions/approvals.js";

/** Text that every database can store. */
export const textWithoutNul = (maxChars: number) =>
  z
    .string()
    .min(1)
    .max(maxChars)
    .refine((text) => !text.includes("\0"), "must be text without NUL");

// Records as the API shows them. A schema with an id is a component of the OpenAPI document.

export const runSchema: z.ZodType<RunRecord> = runRecord.meta({
  id: "Run",
  description: "The record of a run, as stored.",
});

export const survivor = survivorSchema.meta({
  id: "Survivor",
  description: "A process that is alive after its run was stopped.",
});

export const processSchema = leftoverProcessSchema.meta({
  id: "Process",
  description: "The identity and command of a process.",
});

export const gatewaySchema: z.ZodType<GatewayWithStatus> = gatewayRecord
  .omit({ directory: true, peerKey: true })
  .extend({
    presence: z.enum(["up", "silent", "unreachable", "stopped"]),
    lastHeardAt: z.number().nullable(),
    runs: z.int(),
  })
  .meta({ id: "Gateway", description: "A gateway of the store, with its last heartbeat." });

/** The lease of the last run of a session's agent. */
const leaseFields = {
  leaseId: z.string().nullable(),
  leaseState: z.enum(LEASE_STATES).nullable(),
};

export const sessionSchema: z.ZodType<SessionRecord> = sessionRecord.meta({
  id: "Session",
  description: "The record of a session, as stored.",
});

export const sessionRowSchema: z.ZodType<SessionRow> = sessionRecord.extend(leaseFields).meta({
  id: "SessionRow",
  description: "The record of a session, with the lease of its agent's last run.",
});

/** Why a session is closed, for its record. */
export const closeReason = textWithoutNul(1_000).optional();

/** The open descendants and runs of a closed session. */
export const closedTreeFields = {
  children: z.array(
    z
      .object({
        sessionId: z.string(),
        key: z.string(),
        outcome: z.enum(["closed", "open"]),
        /** Why it is open, although it was to be closed; or what is left of it. */
        why: z.string().nullable(),
      })
      .meta({ id: "ClosedChild", description: "A session below a closed session." }),
  ),
  runs: z.array(
    z
      .object({
        runId: z.string(),
        command: z.string(),
        outcome: z.enum(["stopped", "running"]),
        why: z.string().nullable(),
      })
      .meta({ id: "StoppedRun", description: "A run of a closed session or of a session below it." }),
  ),
};

export const messageSchema: z.ZodType<SessionMessage> = messageRecord.meta({
  id: "SessionMessage",
  description: "A message in the history of a session.",
});

export const approvalSchema: z.ZodType<ApprovalView> = approvalRecord
  .extend({
    /** `whole`: the command shows the whole question; `digest` is then its digest. Null: not pending at this gateway. */
    question: z.object({ whole: z.boolean(), digest: z.string().nullable() }).nullable(),
  })
  .meta({ id: "Approval", description: "A question to the operator about a command." });

export const taskSchema: z.ZodType<TaskRecord> = taskRecord.meta({
  id: "Task",
  description: "The record of a task, as stored.",
});

export const taskEventSchema = taskEventRecord.meta({
  id: "TaskEvent",
  description: "An entry in the history of a task.",
});

export const taskMessageSchema = outboxEntrySchema
  .pick({
    target: true,
    status: true,
    attempts: true,
    error: true,
    receipt: true,
    createdAt: true,
    settledAt: true,
  })
  .extend(notificationSchema.pick({ id: true, kind: true, text: true }).shape)
  .meta({ id: "TaskMessage", description: "A message about a task to one target." });

export const acpProblemSchema = storedErrorSchema.meta({
  id: "AcpProblem",
  description: "Why a session or a turn failed.",
});

export const permissionRuleSchema = permissionRule.meta({
  id: "PermissionRule",
  description: "A rule that decides permission requests of an agent.",
});

export const acpRuleSchema = rememberedRuleSchema
  .omit({ inputDigest: true })
  .extend({
    /** `config`: a rule of the config, which cannot be revoked. */
    scope: z.enum(["session", "agent", "config"]),
    /** The name of the session. */
    sessionKey: z.string().nullable(),
    /** Null: of the config. */
    createdAt: z.number().nullable(),
  })
  .meta({ id: "AcpRule", description: "A permission rule beside those of a session." });

export const acpSessionSchema = acpSessionRecord
  .omit({
    argv: true,
    tmpdir: true,
    capabilities: true,
    agentState: true,
    settings: true,
    end: true,
    sending: true,
    pending: true,
    version: true,
    mcpServers: true,
  })
  .extend({
    /** Without the values of their variables and headers. */
    mcpServers: z.array(
      z.object({
        name: z.string(),
        transport: z.enum(["stdio", "http", "sse"]),
        /** The command or URL, with secrets masked. */
        target: z.string(),
        /** The names of its variables or headers. */
        given: z.array(z.string()),
      }),
    ),
  })
  .extend({
    key: z.string(),
    agentId: z.string().nullable(),
    closedBy: z.string().nullable(),
    closeReason: z.string().nullable(),
    ...leaseFields,
  })
  .meta({ id: "AcpSession", description: "A session with an ACP agent." });

export const acpTurnSchema = acpTurnRecord
  .omit({ requestId: true, before: true, content: true })
  .extend({
    /** The files, images and links of the prompt, without their content. */
    attachments: z.array(z.object({ type: z.string(), name: z.string(), bytes: z.int().nullable() })),
  })
  .meta({ id: "AcpTurn", description: "One prompt to an ACP agent and its result." });

export const acpUpdateSchema = acpUpdateRecord
  .omit({ sessionId: true })
  .meta({ id: "AcpUpdate", description: "An entry in the update log of an ACP session." });

export const acpPermissionSchema = permissionRequestSchema
  .omit({ rpcId: true, inputDigest: true, answered: true })
  .extend({
    /** `whole`: the title shows the whole question; `digest` is then its digest. Null: not pending at this gateway. */
    question: z.object({ whole: z.boolean(), digest: z.string().nullable() }).nullable(),
    /** The name of the session. */
    sessionKey: z.string(),
  })
  .meta({ id: "AcpPermission", description: "A permission request of an ACP agent." });

/** Why the end of the run is not recorded yet. Null: it is recorded, or the run has not ended. */
export const recordPending = z.string().nullable();

const runId = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "is not a run id");
export const runParams = z.object({ runId });

/** A boolean of a query string. */
export const flag = z.enum(["0", "1", "false", "true"]).transform((text) => text === "1" || text === "true");
export const count = z.coerce.number().int().min(0);
export const pageLimit = (initial = 100) => z.coerce.number().int().min(1).max(1_000).default(initial);
export const stream = z.enum(["stdout", "stderr"]);

export const outputPiece = z
  .object({
    stream,
    /** Offset of the first byte of `text`. */
    offset: z.int(),
    /** Where the next piece begins. */
    nextOffset: z.int(),
    /** Without terminal escapes; other control and invisible characters are replaced by visible symbols. A log with `raw`: unchanged. */
    text: z.string(),
    /** The bytes from `offset` to `nextOffset`. Only with `raw`, in responses of `exec` and `poll`. */
    base64: z.string().optional(),
    /** Bytes before `offset` that were not kept, or not returned because of the limit. */
    skipped: z.int(),
    /** The part of `skipped` that is missing because a spool file was truncated or removed. */
    lost: z.int(),
    /** The stream ends at `nextOffset`. */
    ended: z.boolean(),
  })
  .meta({ id: "OutputPiece", description: "A piece of the output of one stream, as text." });

export const questionQuery = z.strictObject({
  /** Page number, from 1. A number beyond the last page means the last page. */
  page: z.coerce.number().int().min(1).max(1_000_000).default(1),
  /** Do not mask secrets. */
  reveal: flag.optional(),
});

/** Fields of one page of a question. `pages` is 0 if the question is not pending at this gateway. */
export const questionPage = {
  page: z.int(),
  pages: z.int(),
  parts: z.array(
    z
      .object({
        /** `program`, `argv[0]`, `cwd`, `env NAME`, `unset NAME`, `stdin`, `title`, … */
        label: z.string(),
        /** Quoted for a shell, on one line; invisible characters are escaped, secrets are masked. */
        text: z.string(),
        note: z.string().nullable(),
        /** The text continues in the next part. */
        continues: z.boolean(),
        masked: z.int(),
      })
      .meta({ id: "QuestionPart", description: "A labelled part of a question to the operator." }),
  ),
  /** Digest of the question, to be sent with the answer. Null: this is not the last page. */
  digest: z.string().nullable(),
};

/** Digest of the question that was shown. Required to allow a question that the list shows in part only. */
export const questionDigest = z.string().max(200).optional();
