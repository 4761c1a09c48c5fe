import type { AnchorHost, AnchorLink, CgroupRef, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { NotSteering, RunExists } from "../../errors.js";
import { NO_DEADLINES, NO_LIMITS, type RunKind, type RunRecord } from "../../model/run.js";
import { bindLink } from "../attach/bind-link.js";
import { gatedChange, type RecordedIdentity } from "../run/recorded-identity.js";
import { restoreLiveRun } from "../attach/create-live-run.js";
import { keepGateClosed, reattach } from "../attach/reattach.js";
import { type DeadAnchorResult, killVerifiedTree, NO_CLEANUP } from "../end/dead-anchor.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { detachRun } from "../run/lifecycle.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { defaultPolicy } from "../run/options.js";
import { reconcileEvent } from "./applied-decision.js";
import type { Decided, Decision } from "../decision.js";
import type { Lease, NewRun, RunChange } from "../../store/runs/store.js";

/**
 * A directory of which the store knows nothing (it was replaced or restored): give it a record, then treat it like any
 * other. What cannot be read off it is said to be unknown, and nothing is signalled on its word: only who is in a cgroup
 * that was provably made for it.
 */
export async function recordOrphanRun(
  context: SupervisorContext,
  run: RunAddress,
  onDecision: (decision: Decided) => void,
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
  // Whoever forgets a run removes its directory, then its record: it may have been listed before and be asked for after.
  if (observer === null && !(await host.listRunIds(run.instanceId)).includes(runId)) return null;
  const epoch = (observer?.welcome.highestEpoch ?? 0) + 1;
  const decision: Decision =
    observer === null
      ? { row: "imported", action: "lose", why: "its directory had no record; it is over" }
      : { row: "imported", action: "continue", why: "its directory had no record; its anchor lives" };
  const ageMs = observer?.welcome.elapsedMs ?? 0;
  const kind = observer?.welcome.kind ?? "task";
  const lease = await insertOrphan(context, orphanRecord(context, run, epoch, ageMs, kind), decision);
  if (lease === null) return null;
  onDecision({ runId, ...decision });
  if (observer === null) return finalizeOrphan(context, run, lease, await findCgroup(context, run));
  await store.saveRun(lease, gatedChange(observer.welcome));
  const link = await host.attach(run, epoch).catch(() => null);
  const record = await store.getRun(runId);
  if (record === null) return null;
  const live = restoreLiveRun(context, record, lease, link?.welcome ?? null);
  // Its record was made just now, and dates nothing.
  live.startedAt = null;
  if (link === null) {
    // It answered a moment ago: what became of it is found out like of any other.
    context.track(runId, reattach(live));
    return live;
  }
  bindLink(live, link, true);
  keepGateClosed(live, link);
  return live;
}

/** A cgroup that is provably of a run of this state directory, with somebody in it, and no record: nobody answers for them. */
export async function recordOrphanCgroup(
  context: SupervisorContext,
  run: RunAddress,
  boundary: CgroupRef,
  onDecision: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const decision: Decision = {
    row: "detached-orphaned",
    action: "sweep",
    why: "a cgroup of this instance had no record, and was not empty",
  };
  const lease = await insertOrphan(context, orphanRecord(context, run, 1, 0), decision);
  if (lease === null) return null;
  onDecision({ runId: run.runId, ...decision });
  return finalizeOrphan(context, run, lease, boundary);
}

async function findCgroup(
  { host }: SupervisorContext,
  { instanceId, runId }: RunAddress,
): Promise<CgroupRef | null> {
  const all = await host.listRunCgroups(instanceId);
  return all.find((each) => each.runId === runId) ?? null;
}

/** Nobody answers for it: what it left says how it ended, and who is still in its cgroup is ended. */
async function finalizeOrphan(
  context: SupervisorContext,
  run: RunAddress,
  lease: Lease,
  boundary: CgroupRef | null,
): Promise<LiveRun | null> {
  const { store, host } = context;
  // On record first: should we die here, whoever comes next knows where to look.
  if (boundary !== null) await store.saveRun(lease, cgroupChange(boundary));
  const record = await store.getRun(run.runId);
  if (record === null) return null;
  const live = restoreLiveRun(context, record, lease, null);
  live.startedAt = null;
  try {
    finalizeDeadAnchor(live, await resolveOrphan(host, live.recordedIdentity));
  } catch (cause) {
    detachRun(live, new NotSteering(run.runId, "what is left of it could not be looked at"));
    throw cause;
  }
  await live.ended.promise;
  return null;
}

async function resolveOrphan(host: AnchorHost, recorded: RecordedIdentity): Promise<DeadAnchorResult> {
  const runFiles = await host.readRunFiles(recorded.run);
  if (runFiles.exit !== null) return { kind: "exit", exit: runFiles.exit };
  if (recorded.boundary !== null)
    return { kind: "lost", runFiles, ...(await killVerifiedTree(host, recorded)) };
  return {
    ...NO_CLEANUP,
    kind: "lost",
    runFiles,
    emptiness: runFiles.swept?.emptiness ?? "unproven",
    note: "it was found without a record, so nothing was signalled",
  };
}

function cgroupChange({ path, inode }: CgroupRef): RunChange {
  return { to: "weaker", tier: "cgroup", boundary: { cgroup: path, cgroupInode: inode, note: null } };
}

/** Null: another supervisor was faster. */
async function insertOrphan(
  context: SupervisorContext,
  run: NewRun,
  decision: Decision,
): Promise<Lease | null> {
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

function orphanRecord(
  context: SupervisorContext,
  { instanceId, runId }: RunAddress,
  leaseEpoch: number,
  ageMs: number,
  kind: RunKind = "task",
): NewRun {
  const { host } = context;
  return {
    runId,
    leaseId: "",
    sessionKey: null,
    sessionId: null,
    backendId: null,
    agentId: null,
    labels: {},
    kind,
    io: "pipe",
    command: "(unknown: found without a record)",
    commandHash: "",
    cwd: "",
    ...host.machine,
    stateId: context.stateId,
    anchorPath: host.anchorPath,
    originInstanceId: instanceId,
    ownerInstanceId: context.instanceId,
    leaseEpoch,
    deadlines: NO_DEADLINES,
    policy: defaultPolicy({ onEscape: "fail", onOrphan: "adopt" }),
    limits: NO_LIMITS,
    createdAt: context.clock.wall() - ageMs,
    service: kind === "task" ? null : { port: null, readyAt: null },
    imported: null,
  };
}
