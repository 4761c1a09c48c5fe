import type { RouteHandlers } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { Requester } from "../../sessions/requester.js";
import type { HandlerDeps } from "./handler-deps.js";

export function createDashboardHandlers({ dashboard, authorizer }: HandlerDeps) {
  /** The requester whose rights the page gets: the operator may choose a session, a session only itself. */
  const viewer = async (requester: Requester, wanted: string | undefined): Promise<Requester> => {
    if (wanted === undefined) return requester;
    const session = await authorizer.requireSession(requester, wanted);
    if (requester.kind === "session" && requester.session.id === session.id) return requester;
    if (requester.kind === "session" || session.closedAt !== null) throw NotFound.session(wanted);
    return { kind: "session", actor: `session:${session.key}`, session };
  };
  return {
    openDashboard: async ({ body: { session, port } }, { requester }) =>
      dashboard.open(await viewer(requester, session), port ?? null),
    closeDashboard: () => dashboard.close(),
  } satisfies Partial<RouteHandlers>;
}
