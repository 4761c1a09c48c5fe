import { z } from "zod";
import type { RunRecord } from "../../model/run.js";
import {
  acpSessionSchema as acpSessionRecord,
  acpTurnSchema as acpTurnRecord,
  acpUpdateSchema as acpUpdateRecord,
  permissionRequestSchema,
  permissionRuleSchema as permissionRule,
  storedErrorSchema,
} from "../../model/schema/acp.js";
import { gatewaySchema as gatewayRecord } from "../../model/schema/gateway.js";
import { leftoverProcessSchema, survivorSchema } from "../../model/schema/process.js";
import { runSchema as runRecord } from "../../model/schema/run.js";
import {
  approvalSchema as approvalRecord,
  messageSchema as messageRecord,
  sessionSchema as sessionRecord,
} from "../../model/schema/session.js";
import {
  notificationSchema,
  outboxEntrySchema,
  taskEventSchema as taskEventRecord,
  taskSchema as taskRecord,
} from "../../model/schema/task.js";
import type { SessionMessage, SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import type { ApprovalView } from "../../sessions/approvals.js";
import type { GatewayWithStatus } from "../../store/gateways/status.js";

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

export const sessionSchema: z.ZodType<SessionRecord> = sessionRecord.meta({
  id: "Session",
  description: "The record of a session, as stored.",
});

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

export const acpSessionSchema = acpSessionRecord
  .omit({
    argv: true,
    tmpdir: true,
    capabilities: true,
    end: true,
    sending: true,
    pending: true,
    version: true,
  })
  .extend({ key: z.string(), agentId: z.string().nullable() })
  .meta({ id: "AcpSession", description: "A session with an ACP agent." });

export const acpTurnSchema = acpTurnRecord
  .omit({ requestId: true, before: true })
  .meta({ id: "AcpTurn", description: "One prompt to an ACP agent and its result." });

export const acpUpdateSchema = acpUpdateRecord
  .omit({ sessionId: true })
  .meta({ id: "AcpUpdate", description: "An entry in the update log of an ACP session." });

export const acpPermissionSchema = permissionRequestSchema
  .omit({ rpcId: true, answered: true })
  .extend({
    /** `whole`: the title shows the whole question; `digest` is then its digest. Null: not pending at this gateway. */
    question: z.object({ whole: z.boolean(), digest: z.string().nullable() }).nullable(),
  })
  .meta({ id: "AcpPermission", description: "A permission request of an ACP agent." });
