import {
  GATEWAY_STOPPING,
  type RequestContext,
  type ResponseOf,
  type RouteHandlers,
} from "../../api/contract.js";
import type { Requester } from "../../sessions/requester.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { HandlerDeps } from "./handler-deps.js";

export function createServiceHandlers({ supervisor, authorizer }: HandlerDeps) {
  const visible = (requester: Requester, runId: string) =>
    authorizer.requireRun(supervisor, requester, runId);
  return {
    ready: async ({ params, body: { timeoutMs, orStop } }, context) => {
      const { runId } = await visible(context.requester, params.runId);
      // The end is recorded a moment later.
      const run = supervisor.run(runId);
      const readiness = await (orStop ? waitReadyOrStop : waitReady)(supervisor, runId, timeoutMs, context);
      const ended = readiness.state === "ended" ? await run?.end() : null;
      return { run: ended?.record ?? (await visible(context.requester, runId)), readiness };
    },

    adoptRun: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      return supervisor.adoptRun(record.runId, { actor: requester.actor, ...body });
    },

    adoptProcess: async ({ params }, { requester }) => {
      const { record, from, warnings } = await supervisor.adoptProcess(params.pid, {
        actor: requester.actor,
      });
      return { run: record, from, warnings: [...warnings] };
    },
  } satisfies Partial<RouteHandlers>;
}

type ReadinessAnswer = ResponseOf<"ready">["readiness"];

/** Waits until the service is ready, at most until the caller disconnects. */
async function waitReady(
  supervisor: Supervisor,
  runId: string,
  timeoutMs: number,
  { disconnected }: RequestContext,
): Promise<ReadinessAnswer> {
  const found = await supervisor.ready(runId, { timeoutMs, signal: disconnected });
  return { state: found.kind, detail: "detail" in found ? found.detail : null };
}

/** Stops the service if it is not ready in time, or if the caller disconnects before. */
export async function waitReadyOrStop(
  supervisor: Supervisor,
  runId: string,
  timeoutMs: number,
  context: RequestContext,
): Promise<ReadinessAnswer> {
  const { disconnected, requester } = context;
  const found = await waitReady(supervisor, runId, timeoutMs, context);
  if (found.state === "timeout")
    await supervisor.stop(runId, {
      reason: "overall-timeout",
      actor: `${requester.actor} (not ready in time)`,
    });
  // If the gateway closed the connection, its runs continue under their anchors.
  if (found.state === "given-up" && disconnected.aborted && disconnected.reason !== GATEWAY_STOPPING)
    await supervisor.stop(runId, { actor: `${requester.actor} (left)` });
  return found;
}
