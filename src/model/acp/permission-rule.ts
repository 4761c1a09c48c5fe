import { z } from "zod";
import type { RecordOf } from "../record-type.js";

/** A rule on a tool call. All parts that are present must match. */
export const permissionRuleSchema = z.strictObject({
  effect: z.enum(["allow", "reject", "ask"]),
  /** The protocol's tool kind: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. */
  kind: z.string().min(1).max(100).optional(),
  /** `*` stands for any text, unless `exact` is set. */
  title: z.string().min(1).max(1_000).optional(),
  /** The title is compared character by character. */
  exact: z.boolean().optional(),
});

/** A permission rule that an operator added to a session or an agent, and can revoke. */
export const rememberedRuleSchema = z.object({
  id: z.string(),
  scope: z.enum(["session", "agent"]),
  /** Only in the scope `session`. */
  sessionId: z.string().nullable(),
  /** An agent of the catalogue; of the scope `agent`. */
  agent: z.string().nullable(),
  effect: permissionRuleSchema.shape.effect,
  kind: z.string().nullable(),
  title: z.string().nullable(),
  exact: z.boolean(),
  /** The digest of what the answered request executes, of an exact rule from an answer; null: its input did not name it. */
  inputDigest: z.string().nullable(),
  /** The permission request whose answer was to be remembered; null: it was added as a rule. */
  permissionId: z.string().nullable(),
  actor: z.string(),
  createdAt: z.number(),
  /** Null: it applies. */
  revokedAt: z.number().nullable(),
  revokedBy: z.string().nullable(),
});

export type PermissionRule = RecordOf<typeof permissionRuleSchema>;
export type RememberedRule = RecordOf<typeof rememberedRuleSchema>;
