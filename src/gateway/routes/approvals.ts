import type { RouteHandlers } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { HandlerDeps } from "./handler-deps.js";

export function createApprovalHandlers({ approvals }: HandlerDeps) {
  return {
    listApprovals: async ({ query: { decided, limit } }) => ({
      approvals: [...(await (decided === true ? approvals.listDecided(limit) : approvals.listPending()))],
    }),

    showApproval: async ({ params, query }) => {
      const page = await approvals.page(params.id, query.page, query.reveal === true);
      if (page === null) throw new NotFound(`approval ${params.id}`);
      return { ...page, parts: [...page.parts] };
    },

    decideApproval: async ({ params, body }, { requester }) => {
      const answer = await approvals.decide(params.id, body.verdict, requester.actor, body.digest);
      if (answer === null) throw new NotFound(`approval ${params.id}`);
      return answer;
    },
  } satisfies Partial<RouteHandlers>;
}
