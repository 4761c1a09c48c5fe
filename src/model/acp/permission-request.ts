import { z } from "zod";
import type { RecordOf } from "../record-type.js";

const permissionOptionSchema = z.object({
  optionId: z.string(),
  name: z.string(),
  kind: z.string(),
});

const permissionDecisionSchema = z.object({
  verdict: z.enum(["allow", "deny", "cancelled", "expired"]),
  /** Null: none was chosen; the agent is answered that its request was cancelled. */
  optionId: z.string().nullable(),
  actor: z.string(),
  at: z.number(),
});

/** An agent's question before it uses a tool. */
export const permissionRequestSchema = z.object({
  id: z.string(),
  sessionId: z.string(),
  turnId: z.string().nullable(),
  /** Id of the agent's request. */
  rpcId: z.union([z.string(), z.number()]).nullable(),
  toolCallId: z.string(),
  kind: z.string().nullable(),
  title: z.string().nullable(),
  /** The digest of what the tool call executes; null: its input does not name it. */
  inputDigest: z.string().nullable(),
  options: z.array(permissionOptionSchema),
  /** Index of the session's rule that decided or asked; null: another rule did, or none matched. */
  rule: z.int().nullable(),
  askedAt: z.number(),
  expiresAt: z.number(),
  decision: permissionDecisionSchema.nullable(),
  /** The answer was sent to the agent, or the agent no longer waits for it. */
  answered: z.boolean(),
});

export type AcpPermissionRequest = RecordOf<typeof permissionRequestSchema>;
export type PermissionOption = RecordOf<typeof permissionOptionSchema>;
export type PermissionDecision = RecordOf<typeof permissionDecisionSchema>;
export type PermissionVerdict = PermissionDecision["verdict"];
