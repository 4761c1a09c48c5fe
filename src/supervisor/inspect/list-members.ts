import { type LiveProcesses, membersOfRun } from "../../anchor/inspect/processes.js";
import { PROTOCOL } from "../../anchor/protocol/messages.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { NotSteering } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { isInactive, type LiveRun } from "../run/live-run.js";

/** The members of a run: from its anchor, or from its process tree if the anchor does not answer. */
export async function listMembers(live: LiveRun): Promise<LiveProcesses> {
  return (await membersFromAnchor(live)) ?? membersFromHost(live);
}

/** Null: the anchor is too old for this request, or does not answer. */
async function membersFromAnchor(live: LiveRun): Promise<LiveProcesses | null> {
  const { link, memberRequests, context } = live;
  if (link === null || isInactive(live) || link.welcome.protocol < PROTOCOL) return null;
  const answered = deferred<LiveProcesses | null>();
  const requestId = newRequestId();
  const timeout = context.clock.setTimer(defaults.membersMs, () => answered.resolve(null));
  memberRequests.set(requestId, answered);
  try {
    link.requestMembers(requestId);
    return await answered.promise;
  } finally {
    timeout.cancel();
    memberRequests.delete(requestId);
  }
}

export function failPendingMemberRequests({ memberRequests }: LiveRun): void {
  for (const request of memberRequests.values()) request.resolve(null);
}

async function membersFromHost(live: LiveRun): Promise<LiveProcesses> {
  const { host, store } = live.context;
  const { facts } = live;
  const records = await store.listRuns({ states: OPEN_RUN_STATES, withoutLabels: true });
  const record = records.find(({ runId }) => runId === facts.runId);
  if (record === undefined || record.anchor === null) return [];
  const [evidence] = await host.inspectProcesses([record.anchor]);
  if (live.finalizing) return [];
  if (evidence?.matches !== true) throw new NotSteering(facts.runId, "its anchor cannot be inspected now");
  return membersOfRun(record, records, evidence.descendants).filter(({ state }) => state !== "Z");
}
