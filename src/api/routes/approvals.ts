import { z } from "zod";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { approvalSchema, flag, pageLimit, questionDigest, questionPage, questionQuery } from "./schemas.js";

/** With `follow`, the response is a stream of lines: the pending questions, then each new question and each end of one. */
export const listApprovalsRoute = defineRoute({
  ...endpoints.listApprovals,
  summary: "List the commands that wait for an approval, or those that were decided",
  audience: "operator",
  query: z.strictObject({
    follow: flag.optional(),
    /** The decided ones that are kept, the newest first. */
    decided: flag.optional(),
    /** Limits the decided approvals; all waiting ones are listed. */
    limit: pageLimit(),
  }),
  response: z.object({ approvals: z.array(approvalSchema) }),
});

export const showApprovalRoute = defineRoute({
  ...endpoints.showApproval,
  summary: "Get a page of a pending question: argv, directory, variables and input",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  query: questionQuery,
  response: z.object({ approval: approvalSchema, ...questionPage }),
});

export const decideApprovalRoute = defineRoute({
  ...endpoints.decideApproval,
  summary: "Approve or deny a command",
  audience: "operator",
  params: z.object({ id: z.string().max(200) }),
  body: z.strictObject({ verdict: z.enum(["allow", "deny"]), digest: questionDigest }),
  response: z.object({ approval: approvalSchema, decided: z.boolean() }),
});
