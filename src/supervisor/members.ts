import type { MemberSignal } from "../anchor/host.js";
import type { LiveProcesses } from "../anchor/live-trees.js";
import { membersOf } from "../anchor/members.js";
import { NotSteering } from "../errors.js";
import { OPEN_STATES, type ProcessIdentity } from "../store/run-record.js";
import { deferred } from "./deferred.js";
import type { LiveRun } from "./live-run.js";

/** Who lives in a run, as its anchor's own descendants say. */
export async function liveMembers({ context: { host, store }, facts }: LiveRun): Promise<LiveProcesses> {
  const records = await store.listRuns({ states: OPEN_STATES });
  const record = records.find(({ runId }) => runId === facts.runId);
  if (record === undefined || record.anchor === null) return [];
  const [evidence] = await host.inspect([record.anchor]);
  if (evidence?.matches !== true) return [];
  return membersOf(record, records, evidence.descendants).filter(({ state }) => state !== "Z");
}

/** One request at a time: the answers have no names. */
export async function signalMembers(
  live: LiveRun,
  processes: readonly ProcessIdentity[],
  signal: MemberSignal,
): Promise<number> {
  while (live.signalling !== null) await live.signalling.promise.catch(() => undefined);
  if (live.link === null || !live.owner)
    throw new NotSteering(live.facts.runId, "its anchor does not answer now");
  const answered = deferred<number>();
  live.signalling = answered;
  try {
    live.link.signal(processes, signal);
    return await Promise.race([answered.promise, live.ended.promise.then(() => 0)]);
  } finally {
    live.signalling = null;
  }
}
