import type { Supervisor } from "../../supervisor/api.js";
import type { ResponseOf } from "../../api/contract.js";
import { GATEWAY_STOPPING, type RequestContext } from "../server/router.js";

type ReadinessAnswer = ResponseOf<"ready">["readiness"];

/** As long as the caller stays. */
export async function waitReady(
  supervisor: Supervisor,
  runId: string,
  timeoutMs: number,
  { disconnected }: RequestContext,
): Promise<ReadinessAnswer> {
  const found = await supervisor.ready(runId, { timeoutMs, signal: disconnected });
  return { state: found.kind, detail: "detail" in found ? found.detail : null };
}

/** A service that nobody ever reached is of no use: unless it is ready in time, and its caller still there, it is stopped. */
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
  // When the gateway hung up, its runs stay with their anchors.
  if (found.state === "given-up" && disconnected.aborted && disconnected.reason !== GATEWAY_STOPPING)
    await supervisor.stop(runId, { actor: `${requester.actor} (left)` });
  return found;
}
