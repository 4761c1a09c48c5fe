import { z } from "zod";
import { elicitationContentSchema, elicitationSchema } from "../../model/acp/elicitation.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import {
  acpPermissionSchema,
  acpRuleSchema,
  flag,
  pageLimit,
  permissionRuleSchema,
  questionDigest,
  questionPage,
  questionQuery,
} from "./schemas.js";

const key = z.string().min(1).max(200);

export const acpPermissionsRoute = defineRoute({
  ...endpoints.acpPermissions,
  summary: "List permission requests of agents",
  audience: "session",
  query: z.strictObject({
    session: key.optional(),
    /** Include decided requests. */
    all: flag.optional(),
    /** Only decided requests, the newest first. Otherwise the oldest is first. */
    decided: flag.optional(),
    limit: pageLimit(),
  }),
  response: z.object({ permissions: z.array(acpPermissionSchema) }),
});

export const acpQuestionRoute = defineRoute({
  ...endpoints.acpQuestion,
  summary: "Get a page of a pending permission request",
  errors: ["ACP_NOT_HELD"],
  audience: "operator",
  params: z.object({ id: key }),
  query: questionQuery,
  response: z.object({
    permission: acpPermissionSchema,
    /** The agent's question to its user. Null: it asks for permission, or the request does not wait at this gateway. */
    form: elicitationSchema.nullable(),
    ...questionPage,
  }),
});

export const acpAnswerRoute = defineRoute({
  ...endpoints.acpAnswer,
  summary: "Allow or deny a permission request, or answer a question to the user",
  errors: ["ACP_NOT_HELD"],
  audience: "operator",
  params: z.object({ id: key }),
  body: z.strictObject({
    /** A question to the user is answered, declined, or (`cancel`) dismissed. */
    verdict: z.enum(["allow", "deny", "cancel"]),
    /** The values for the form of a question to the user; a text is converted to the type of its field. */
    content: elicitationContentSchema.optional(),
    digest: questionDigest,
    /** One of the request's options, of the verdict's kind. Default: the first option that answers once. */
    optionId: key.optional(),
    /** Answer later requests likewise: those that execute the same under the same kind and title, or those that `kind` and `title` match. */
    remember: z
      .strictObject({
        scope: z.enum(["session", "agent"]),
        kind: permissionRuleSchema.shape.kind,
        title: permissionRuleSchema.shape.title,
      })
      .optional(),
  }),
  response: z.object({ permission: acpPermissionSchema, decided: z.boolean() }),
});

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
