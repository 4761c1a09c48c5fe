import { errorMessage } from "../../home/errno.js";
import { packageVersion } from "../../home/package.js";
import type { RouteHandlers } from "../../api/contract.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import { runsSeenBy } from "../../queries/runs.js";
import type { Requester } from "../../sessions/requester.js";
import { EventCursor, type EventSource } from "../../store/runs/event-cursor.js";
import type { HandlerDeps } from "./handler-deps.js";
import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type { Supervisor } from "../../supervisor/api.js";

export function createGatewayHandlers(deps: HandlerDeps) {
  const { supervisor, authorizer } = deps;
  const openRunsOf = async (requester: Requester): Promise<number> => {
    const filter = {
      states: OPEN_RUN_STATES,
      ...runsSeenBy(authorizer, requester),
      withoutLabels: true,
    } as const;
    return (await supervisor.listRuns(filter)).length;
  };
  return {
    status: async (_, { requester }) => {
      const about = {
        instanceId: supervisor.instanceId,
        version: packageVersion(),
        pid: process.pid,
        tier: null,
        ...deps.gatewayStatus(),
        ...(await countOpenRuns(supervisor)),
      };
      return requester.kind === "operator" ? about : { ...about, runs: await openRunsOf(requester) };
    },
    stop: ({ body }) => deps.shutDown(body),
    listGateways: async () => ({ gateways: [...(await deps.listGateways())] }),

    health: () => deps.health(),
    doctor: () => deps.doctor(),

    events: async ({ query }, { requester }) => {
      const { after, limit, run } = query;
      const of = run === undefined ? {} : { runId: await authorizer.maskRunId(supervisor, requester, run) };
      const scope = authorizer.sessionScope(requester);
      const source: EventSource<RunEvent | HiddenEvent> = {
        eventsReach: () => deps.store.eventsReach(),
        listEvents: (filter) =>
          scope === null ? deps.store.listEvents(filter) : deps.store.listScopedEvents(scope, filter),
      };
      const cursor = new EventCursor(source, after, of);
      const { events: found, gap } = await cursor.next(limit);
      const events = found.flatMap((event) =>
        event.type === "hidden" ? [] : [{ ...event, data: { ...event.data } }],
      );
      return { events, after: found.at(-1)?.seq ?? gap?.from ?? after, gap: gap !== null };
    },
  } satisfies Partial<RouteHandlers>;
}

/** Answers also while the store does not: commands that stop runs request the status first. */
async function countOpenRuns(
  supervisor: Supervisor,
): Promise<{ readonly runs: number; readonly storeAway: string | null }> {
  const held = (storeAway: string) => ({ runs: supervisor.held, storeAway });
  const listed = supervisor
    .scope()
    .then((mine) =>
      supervisor.listRunsOrLocal(
        { ...mine, states: OPEN_RUN_STATES, withoutLabels: true },
        defaults.localAnswerMs,
      ),
    );
  const stopRequested = listed.then(
    ({ runs, storeAway }) => (storeAway === null ? { runs: runs.length, storeAway } : held(storeAway)),
    (error: unknown) => held(errorMessage(error)),
  );
  const late = systemClock
    .sleep(defaults.storeAnswerMs, stopRequested)
    .then(() => held("the store does not answer"));
  return Promise.race([stopRequested, late]);
}
