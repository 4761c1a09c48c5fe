import { z } from "zod";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { acpRuleSchema, flag, pageLimit, permissionRuleSchema } from "./schemas.js";

const key = z.string().min(1).max(200);

export const acpRulesRoute = defineRoute({
  ...endpoints.acpRules,
  summary: "List the permission rules of sessions, of agents and of the config, newest first",
  audience: "operator",
  query: z.strictObject({
    session: key.optional(),
    agent: key.optional(),
    /** Include revoked rules. */
    all: flag.optional(),
    limit: pageLimit(),
  }),
  response: z.object({ rules: z.array(acpRuleSchema) }),
});

export const acpAddRuleRoute = defineRoute({
  ...endpoints.acpAddRule,
  summary: "Add a permission rule to a session or an agent",
  audience: "operator",
  body: z
    .strictObject({
      rule: permissionRuleSchema,
      /** The id of a session, or the key of an open one. */
      session: key.optional(),
      /** An agent of the catalogue. */
      agent: key.optional(),
    })
    .refine(({ session, agent }) => (session === undefined) !== (agent === undefined), {
      message: "give either a session or an agent",
      path: ["session"],
    }),
  response: z.object({ rule: acpRuleSchema }),
});

export const acpRevokeRuleRoute = defineRoute({
  ...endpoints.acpRevokeRule,
  summary: "Revoke a permission rule of a session or an agent",
  audience: "operator",
  params: z.object({ id: key }),
  /** `revoked` false: it was revoked before. */
  response: z.object({ rule: acpRuleSchema, revoked: z.boolean() }),
});
