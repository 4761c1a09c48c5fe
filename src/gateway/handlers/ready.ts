import type { Supervisor } from "../../supervisor/api.js";
import type { AnswerOf } from "../contract/contract.js";
import { GATEWAY_STOPS, type Asking } from "../server/app.js";

type ReadinessAnswer = AnswerOf<"ready">["readiness"];

/** As long as the caller stays. */
export async function waitReady(
  supervisor: Supervisor,
  runId: string,
  timeoutMs: number,
  { gone }: Asking,
): Promise<ReadinessAnswer> {
  const found = await supervisor.ready(runId, { timeoutMs, signal: gone });
  return { state: found.kind, detail: "detail" in found ? found.detail : null };
}

/** A service that nobody ever reached is of no use: unless it is ready in time, and its caller still there, it is stopped. */
export async function readyOrStopped(
  supervisor: Supervisor,
  runId: string,
  timeoutMs: number,
  asking: Asking,
): Promise<ReadinessAnswer> {
  const { gone, requester } = asking;
  const found = await waitReady(supervisor, runId, timeoutMs, asking);
  if (found.state === "timeout")
    await supervisor.stop(runId, {
      reason: "overall-timeout",
      actor: `${requester.actor} (not ready in time)`,
    });
  // When the gateway hung up, its runs stay with their anchors.
  if (found.state === "given-up" && gone.aborted && gone.reason !== GATEWAY_STOPS)
    await supervisor.stop(runId, { actor: `${requester.actor} (left)` });
  return found;
}
