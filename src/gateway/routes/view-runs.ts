import { findRunsWithoutState } from "../../anchor/inspect/runs-without-state-directory.js";
import type { ResponseOf, RouteHandlers } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { listLiveProcesses } from "../../supervisor/inspect/live-processes.js";
import type { HandlerDeps } from "./handler-deps.js";

type RunView = ResponseOf<"viewRuns">;

/** The answer for `ps` and `runs list`, which then need neither a database nor the processes of this machine. */
export function createRunViewHandler(deps: HandlerDeps) {
  const { supervisor, store, observer } = deps;
  return {
    viewRuns: async ({ query: { all, processes, brief, limit } }) => {
      const filter = all === true ? {} : ({ states: OPEN_RUN_STATES, hidden: false } as const);
      const listed = supervisor.listRunsOrLocal({ ...filter, limit, maxBytes: defaults.listBytes });
      if (brief === true) {
        const { runs, storeAway } = await listed;
        const found = processes === true ? await processesOf(deps, runs) : null;
        return { ...NO_RUNS, machine: observer.machine, storeAway, processes: found };
      }
      const ofStore = Promise.all([store.listHosts().catch(() => []), store.now().catch(() => null)]);
      const [{ runs, storeAway }, trees, withoutState] = await Promise.all([
        listed,
        processes === true ? listed.then((found) => processesOf(deps, found.runs)) : null,
        processes === true ? listRunsWithoutState(deps) : [],
      ]);
      // A store that does not answer the list within its time does not answer these either.
      const [hosts, now] = storeAway === null ? await ofStore : [[], null];
      const last = runs.at(-1);
      const older = { ...filter, limit: 1, withoutLabels: true } as const;
      return {
        runs: [...runs],
        more:
          last !== undefined &&
          storeAway === null &&
          (await supervisor.listRuns({ ...older, after: last })).length > 0,
        hosts: [...hosts],
        // Without the clock of the leases, no lease counts as expired.
        ...{ now: now ?? -1, shared: now === null || store.shared },
        machine: observer.machine,
        storeAway,
        processes: trees,
        withoutState: [...withoutState],
      };
    },
  } satisfies Partial<RouteHandlers>;
}

/** A brief answer: the clock of the leases is not read for it. */
const NO_RUNS = {
  runs: [],
  more: false,
  hosts: [],
  now: -1,
  shared: false,
  withoutState: [],
} satisfies Partial<RunView>;

async function processesOf(
  { observer }: HandlerDeps,
  runs: readonly RunRecord[],
): Promise<RunView["processes"]> {
  const open = runs.filter(({ state }) => state !== "exited");
  const ports = runs.some(({ service }) => service !== null);
  const trees = await listLiveProcesses(observer, open, open, { ports });
  return Object.fromEntries(
    [...trees].map(([runId, { processes, claims, unknown }]) => [
      runId,
      {
        processes: processes.map((each) => ({ ...each, ports: [...each.ports] })),
        claims: [...claims],
        unknown,
      },
    ]),
  );
}

/** Empty where processes cannot be listed. */
async function listRunsWithoutState({
  observer,
  gatewayStatus,
}: HandlerDeps): Promise<RunView["withoutState"]> {
  const found = await findRunsWithoutState(observer.anchorPath, gatewayStatus().home).catch(() => []);
  return found.map(({ runId, instanceId, directory, anchor, processes }) => ({
    ...{ runId, instanceId, directory, anchor },
    processes: [...processes],
  }));
}
