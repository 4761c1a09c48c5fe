import type { AnchorLink, Boundary, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { RunExists } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Lease, NewRun } from "../../store/store.js";
import { adopt, boundaryOf } from "../adopt.js";
import { endVerified, type Aftermath } from "../aftermath.js";
import { concludeAftermath } from "../conclude.js";
import type { Context } from "../context.js";
import { type LiveRun } from "../live-run.js";
import { refuseGate, regain } from "../regain.js";
import { resume } from "../resume.js";
import { reconcileEvent } from "./act.js";
import type { Decision } from "./decide.js";

/**
 * A directory of which the store knows nothing (it was replaced or restored): give it a record, then treat it like any
 * other. What cannot be read off it is said to be unknown, and nothing is signalled on its word.
 */
export async function importRun(context: Context, run: RunAddress): Promise<LiveRun | null> {
  const { store, host } = context;
  const { runId } = run;
  let observer: AnchorLink | null;
  try {
    observer = await host.attach(run, 0);
  } catch (cause) {
    // Somebody is there and does not answer: nothing is concluded, the next look may know more.
    context.report({ runId, message: `run ${runId} has no record, and its anchor does not answer`, cause });
    return null;
  }
  observer?.close();
  const epoch = (observer?.welcome.highestEpoch ?? 0) + 1;
  const decision: Decision =
    observer === null
      ? { row: "imported", action: "lose", why: "its directory had no record; it is over" }
      : { row: "imported", action: "continue", why: "its directory had no record; its anchor lives" };
  const lease = await insert(context, unknownRun(context, run, epoch), decision);
  if (lease === null) return null;
  // On record before anything else: should its anchor die now, its tree can still be verified.
  if (observer !== null) await store.saveRun(lease, gated(observer));
  const record = await store.getRun(runId);
  if (record === null) return null;
  if (observer !== null) {
    const link = await host.attach(run, epoch).catch(() => null);
    const live = resume(context, record, lease, link?.welcome ?? null);
    if (link !== null) {
      adopt(live, link, true);
      refuseGate(live, link);
    } else {
      // It answered a moment ago: what became of it is found out like for any other.
      context.track(runId, regain(live));
    }
    return live;
  }
  const live = resume(context, record, lease, null);
  const remains = await host.remains(run);
  const after: Aftermath =
    remains.exit !== null
      ? { kind: "exit", exit: remains.exit }
      : {
          kind: "lost",
          remains,
          emptiness: remains.swept?.emptiness ?? "unproven",
          mode: "none",
          killed: 0,
          residue: [],
          survivors: 0,
          note: "it was found without a record, so nothing was signalled",
        };
  concludeAftermath(live, after);
  await live.ended.promise;
  return null;
}

/** A cgroup that is provably of a run of this state directory, with somebody in it, and no record: nobody answers for them. */
export async function importBoundary(
  context: Context,
  run: RunAddress,
  { path, inode }: Boundary,
): Promise<LiveRun | null> {
  const { store, host } = context;
  const decision: Decision = {
    row: "detached-orphaned",
    action: "sweep",
    why: "a cgroup of this instance had no record, and was not empty",
  };
  const lease = await insert(context, unknownRun(context, run, 1), decision);
  const record = lease === null ? null : await store.getRun(run.runId);
  if (lease === null || record === null) return null;
  const boundary = { cgroup: path, cgroupInode: inode, note: null };
  const live = resume(context, { ...record, boundary }, lease, null);
  const remains = await host.remains(run);
  concludeAftermath(live, { kind: "lost", remains, ...(await endVerified(host, live.traces)) });
  await live.ended.promise;
  return null;
}

/** Null: another supervisor was faster. */
async function insert(context: Context, run: NewRun, decision: Decision): Promise<Lease | null> {
  const event = reconcileEvent(
    context,
    { ...run, root: null } as unknown as RunRecord,
    decision,
    run.leaseEpoch,
  );
  try {
    return await context.store.insertRun(run, defaults.leaseMs, [event]);
  } catch (error) {
    if (error instanceof RunExists) return null;
    throw error;
  }
}

function gated({ welcome: { anchor, root, boundary } }: AnchorLink) {
  const { tier } = boundary;
  return {
    to: "gated",
    anchor,
    root,
    processGroupId: root.pid,
    boundary: boundaryOf(boundary),
    tier,
  } as const;
}

function unknownRun(context: Context, { instanceId, runId }: RunAddress, leaseEpoch: number): NewRun {
  const { host } = context;
  const { graceMs, settleMs, drainMs, killReportMs, ownerLossMs } = defaults;
  return {
    runId,
    leaseId: "",
    sessionKey: null,
    backendId: null,
    agentId: null,
    labels: {},
    kind: "task",
    io: "pipe",
    command: "(unknown: found without a record)",
    commandHash: "",
    cwd: "",
    ...host.machine,
    anchorPath: host.anchorPath,
    originInstanceId: instanceId,
    ownerInstanceId: context.instanceId,
    leaseEpoch,
    deadlines: { overallMs: null, noOutputMs: null },
    policy: { graceMs, settleMs, drainMs, killReportMs, ownerLossMs, onEscape: "fail", onOrphan: "adopt" },
    createdAt: context.clock.wall(),
    imported: null,
  };
}
