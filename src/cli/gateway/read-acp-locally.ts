import { contract } from "../../gateway/contract/contract.js";
import { createAcpReading } from "../../gateway/handlers/acp-reading.js";
import type { Asking } from "../../gateway/server/app.js";
import type { SessionRow } from "../../store/session-record.js";
import type { ReadStore } from "../../store/store.js";
import type { Looking } from "./look.js";

type AcpLooking = Pick<Looking, "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions">;

/** Whoever may read the store is the operator. */
export function readAcpLocally(
  store: ReadStore | null,
  find: (wanted: string) => Promise<SessionRow>,
  asking: Asking,
): AcpLooking {
  const body = {};
  const reading = createAcpReading({
    store: store ?? NOTHING,
    sessions: { get: async (id) => (await store?.getSession(id)) ?? null },
    sights: { session: (_, wanted) => find(wanted), scopeOf: () => null },
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
    acpShow: ({ params = NOBODY } = {}) => reading.acpShow({ params, query: {}, body }, asking),
    acpHistory: ({ params = NOBODY, query = {} } = {}) =>
      reading.acpHistory({ params, query: contract.acpHistory.query.parse(query), body }, asking),
    acpWatch: ({ params = NOBODY, query = {} } = {}) =>
      reading.acpWatch({ params, query: contract.acpWatch.query.parse(query), body }, asking),
    acpPermissions: ({ query = {} } = {}) =>
      reading.acpPermissions({ params: {}, query: contract.acpPermissions.query.parse(query), body }, asking),
  };
}

const NOBODY = { id: "" };

/** What is read where nothing has been stored yet. */
const NOTHING: Parameters<typeof createAcpReading>[0]["store"] = {
  getAcpSession: async () => null,
  getAcpTurn: async () => null,
  listAcpSessions: async () => [],
  listAcpTurns: async () => [],
  listAcpUpdates: async () => [],
  listAcpPermissions: async () => [],
};
