import { z } from "zod";
import { permissionRuleSchema } from "../model/acp/permission-rule.js";
import { tableName } from "./agents.js";

/** More rules than this are a mistake; each is compared with every permission request. */
const MAX_RULES = 256;

const permissionRule = z.strictObject({
  effect: z.enum(["allow", "deny", "ask"]),
  /** An agent of the catalogue. Absent: every agent. */
  agent: tableName.optional(),
  kind: permissionRuleSchema.shape.kind,
  title: permissionRuleSchema.shape.title,
});

/** The list `[[permissions]]` of the configuration: rules for the permission requests of agents, in order. */
export const permissionTablesSchema = z.array(permissionRule).max(MAX_RULES);

/** The keys of one entry. */
export const permissionKeys = Object.keys(permissionRule.shape);

export type ConfiguredPermissionRule = z.output<typeof permissionRule>;
