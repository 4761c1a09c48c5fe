import type { RemoteStopResult, NewRemoteStop } from "../../model/remote-stop.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";

/** It was handed over (`result` null), or this came of it. */
export function remoteStopEvent(
  { id, runId, actor, handedOverBy, target }: NewRemoteStop,
  record: Pick<RunRecord, "root"> | null,
  result: RemoteStopResult | null,
): NewRunEvent {
  const { outcome = null, error = null } = result ?? {};
  return {
    runId,
    type: "command",
    at: Date.now(),
    rootPid: record?.root?.pid ?? null,
    descendants: 0,
    data: { id, actor, by: handedOverBy, target, outcome, error },
  };
}
