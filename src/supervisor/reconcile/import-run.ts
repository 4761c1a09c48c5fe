import type { AnchorLink, Boundary, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { RunExists } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Lease, NewRun } from "../../store/store.js";
import { adopt, boundaryOf } from "../adopt.js";
import { endVerified, type Aftermath } from "../aftermath.js";
import { concludeAftermath } from "../conclude.js";
import type { Context } from "../context.js";
import type { LiveRun } from "../live-run.js";
import { refuseGate } from "../regain.js";
import { resume } from "../resume.js";
import { reconcileEvent } from "./act.js";
import type { Decision } from "./decide.js";
import type { Decided } from "./reconcile.js";

/**
 * A directory of which the store knows nothing (it was replaced or restored): give it a record, then treat it like any
 * other. What cannot be read off it is said to be unknown, and nothing is signalled on its word.
 */
export async function importRun(
  context: Context,
  run: RunAddress,
  decided: (decision: Decided) => void,
): Promise<LiveRun | null> {
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
  const ageMs = observer?.welcome.elapsedMs ?? 0;
  const lease = await insert(context, unknownRun(context, run, epoch, ageMs), decision);
  if (lease === null) return null;
  decided({ runId, ...decision });
  const link = observer === null ? null : await host.attach(run, epoch).catch(() => null);
  if (link !== null) await store.saveRun(lease, gated(link));
  const record = await store.getRun(runId);
  if (record === null) return null;
  const live = resume(context, record, lease, link?.welcome ?? null);
  // Its record was made just now, and dates nothing.
  live.startedAt = null;
  if (link !== null) {
    adopt(live, link, true);
    refuseGate(live, link);
    return live;
  }
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
  decided: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host } = context;
  const decision: Decision = {
    row: "detached-orphaned",
    action: "sweep",
    why: "a cgroup of this instance had no record, and was not empty",
  };
  const lease = await insert(context, unknownRun(context, run, 1, 0), decision);
  const record = lease === null ? null : await store.getRun(run.runId);
  if (lease === null || record === null) return null;
  decided({ runId: run.runId, ...decision });
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

function unknownRun(
  context: Context,
  { instanceId, runId }: RunAddress,
  leaseEpoch: number,
  ageMs: number,
): NewRun {
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
    createdAt: context.clock.wall() - ageMs,
    imported: null,
  };
}
