import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import type { RunNotFound } from "../../errors.js";
import type { RunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import { matchesRunFilter } from "../../store/local-copy/run-copy.js";
import type { ReadStore } from "../../store/store.js";
import type { EventFilter } from "../../store/runs/store.js";

/** The reads of runs that commands use. */
export type RunView = Pick<
  ReadStore,
  | "getRun"
  | "findRuns"
  | "listRuns"
  | "listEvents"
  | "eventsReach"
  | "listHosts"
  | "shared"
  | "now"
  | typeof Symbol.asyncDispose
>;

/** The largest page of the API. */
const PAGE_LIMIT = 1_000;

/** The runs that a session may see, through its gateway: the newest thousand, and any by its id. */
export function sessionRunView(client: GatewayClient): RunView {
  const getRun = (runId: string): Promise<RunRecord | null> =>
    client.getRun({ params: { runId } }).catch((error: unknown) => {
      if (["RUN_NOT_FOUND", "BAD_INPUT"].includes((error as RunNotFound).code)) return null;
      throw error;
    });
  /** Reads page after page: a page of large records has fewer than `limit`. */
  const all = async (): Promise<readonly RunRecord[]> => {
    const runs: RunRecord[] = [];
    for (let cursor: string | null = null; ;) {
      const query = { all: "1", hidden: "1", limit: PAGE_LIMIT - runs.length } as const;
      const page: ResponseOf<"listRuns"> = await client.listRuns({
        query: cursor === null ? query : { ...query, cursor },
      });
      runs.push(...page.runs);
      cursor = page.next;
      if (cursor === null || runs.length >= PAGE_LIMIT) return runs;
    }
  };
  return {
    getRun,
    findRuns: async (prefix, limit) => {
      const exact = await getRun(prefix);
      if (exact !== null) return [exact];
      return (await all()).filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit);
    },
    listRuns: async (filter) =>
      (await all()).filter((run) => matchesRunFilter(run, filter)).slice(0, filter.limit),
    listEvents: async (filter) => {
      const { hostIds } = filter;
      if (hostIds === undefined) return sessionEvents(client, filter);
      const there = new Set(
        (await all()).filter((run) => matchesRunFilter(run, { hostIds })).map(({ runId }) => runId),
      );
      return sessionEvents(client, filter, ({ runId }) => there.has(runId));
    },
    // The gateway notices a store that was rolled back.
    eventsReach: async () => null,
    // A session sees only the hosts of its runs.
    listHosts: async () =>
      [...new Set((await all()).map(({ hostId }) => hostId))].map((hostId) => ({
        hostId,
        name: "",
        platform: "",
        firstSeenAt: 0,
        lastSeenAt: 0,
      })),
    // The gateway judges leases: here none counts as expired.
    shared: true,
    now: async () => 0,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

async function sessionEvents(
  client: GatewayClient,
  { after = 0, runId, limit = PAGE_LIMIT, newestFirst = false }: EventFilter,
  wanted: (event: RunEvent) => boolean = () => true,
): Promise<readonly RunEvent[]> {
  const found: RunEvent[] = [];
  for (let from = after; ;) {
    const page = await client.events({
      query: { after: from, limit: PAGE_LIMIT, ...(runId === undefined ? {} : { run: runId }) },
    });
    found.push(...(page.events as unknown as RunEvent[]).filter(wanted));
    // Only the newest events are kept in memory.
    if (newestFirst) found.splice(0, Math.max(0, found.length - limit));
    if (page.after === from || (!newestFirst && found.length >= limit)) break;
    from = page.after;
  }
  return newestFirst ? found.toReversed() : found.slice(0, limit);
}
