import { contract } from "../../api/contract.js";
import { createAcpQueries } from "../../queries/acp.js";
import type { RequestContext } from "../../gateway/server/router.js";
import type { SessionRecord } from "../../model/session.js";
import type { ReadStore } from "../../store/store.js";
import type { ReadApi } from "../client/read-client.js";

type AcpReadApi = Pick<ReadApi, "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions">;

/** Whoever may read the store is the operator. */
export function offlineAcpQueries(
  store: ReadStore | null,
  find: (wanted: string) => Promise<SessionRecord>,
  asking: RequestContext,
): AcpReadApi {
  const body = {};
  const reading = createAcpQueries({
    store: store ?? EMPTY_ACP_STORE,
    sessions: { get: async (id) => (await store?.getSession(id)) ?? null },
    authorizer: { requireSession: (_, wanted) => find(wanted), sessionScope: () => null },
    stderrOf: () => "",
    questionOf: async () => null,
    verifyOwnedTree: async () => ({
      verified: false,
      why: "no gateway is running that could look at its processes",
      processes: [],
    }),
  });
  return {
    acpList: ({ query = {} } = {}) =>
      reading.acpList({ params: {}, query: contract.acpList.query.parse(query), body }, asking),
    acpShow: ({ params = NO_SESSION } = {}) => reading.acpShow({ params, query: {}, body }, asking),
    acpHistory: ({ params = NO_SESSION, query = {} } = {}) =>
      reading.acpHistory({ params, query: contract.acpHistory.query.parse(query), body }, asking),
    acpWatch: ({ params = NO_SESSION, query = {} } = {}) =>
      reading.acpWatch({ params, query: contract.acpWatch.query.parse(query), body }, asking),
    acpPermissions: ({ query = {} } = {}) =>
      reading.acpPermissions({ params: {}, query: contract.acpPermissions.query.parse(query), body }, asking),
  };
}

const NO_SESSION = { id: "" };

/** What is read where nothing has been stored yet. */
const EMPTY_ACP_STORE: Parameters<typeof createAcpQueries>[0]["store"] = {
  getAcpSession: async () => null,
  getAcpTurn: async () => null,
  listAcpSessions: async () => [],
  listAcpTurns: async () => [],
  listAcpUpdates: async () => [],
  listAcpPermissionRequests: async () => [],
};
