import type { MemberSignal } from "../../anchor/host-interface.js";
import { deferred } from "../../async/deferred.js";
import { NotSteering } from "../../errors.js";
import type { ProcessIdentity } from "../../model/process.js";
import type { LiveRun } from "./live-run.js";

/** One request at a time: the answers carry no request id. */
export async function signalMembers(
  live: LiveRun,
  processes: readonly ProcessIdentity[],
  signal: MemberSignal,
): Promise<number> {
  while (live.pendingSignal !== null) await live.pendingSignal.promise.catch(() => undefined);
  if (live.link === null || !live.isOwner)
    throw new NotSteering(live.facts.runId, "its anchor does not answer now");
  const answered = deferred<number>();
  live.pendingSignal = answered;
  try {
    live.link.signal(processes, signal);
    return await Promise.race([answered.promise, live.ended.promise.then(() => 0)]);
  } finally {
    live.pendingSignal = null;
  }
}
