import type { AnchorExit, AnchorHost, CgroupRef, RunAddress } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { NotSteering, RunExists } from "../../errors.js";
import { NO_DEADLINES, NO_LIMITS, type RunKind, type RunRecord } from "../../model/run.js";
import type { Lease, NewRun, RunChange } from "../../store/runs/contract.js";
import { bindLink, keepGateClosed } from "../attach/bind-link.js";
import { reattach } from "../attach/reattach.js";
import { restoreLiveRun } from "../attach/create-live-run.js";
import { type Decided, type Decision, reconcileEvent } from "../reconcile-decision.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { type DeadAnchorResult, killVerifiedTree, NO_CLEANUP } from "../end/without-anchor.js";
import { defaultPolicy } from "../check-options.js";
import { detachRun } from "../run/stop-and-detach.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { boundaryOf, gatedChange, type RecordedIdentity } from "../run/recorded-identity.js";
import { probeAnchor } from "./evidence.js";

/**
 * Creates a record for a directory that the store does not know, because the store was replaced or restored. Facts that
 * the directory does not contain stay unknown. Only processes in a cgroup that was verifiably created for the run are
 * signalled.
 */
export async function recordOrphanRun(
  context: SupervisorContext,
  run: RunAddress,
  onDecision: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host } = context;
  const { runId } = run;
  const answer = await probeAnchor(host, run);
  if (answer.kind === "silent") {
    // Try again in the next pass.
    const message = `run ${runId} has no record, and its anchor does not answer`;
    context.report({ runId, message, cause: answer.error });
    return null;
  }
  const observer = answer.kind === "observer" ? answer.observer : null;
  observer?.close();
  // Its owner removes the directory of a run whose record was refused, also after the record is created here.
  const exit = observer === null ? (await host.readRunFiles(run)).exit : null;
  // Retention removes the directory before the record, so the directory may have been listed before and be gone now.
  if (observer === null && !(await host.listRunIds(run.instanceId)).includes(runId)) return null;
  // The process that replaced this one removes the directory if the record of its run was refused.
  if (!(await context.incarnation.isCurrent())) return null;
  const epoch = (observer?.welcome.highestEpoch ?? 0) + 1;
  const decision: Decision =
    observer === null
      ? { row: "imported", action: "lose", why: "its directory had no record; it has ended" }
      : { row: "imported", action: "continue", why: "its directory had no record; its anchor is alive" };
  const ageMs = observer?.welcome.elapsedMs ?? 0;
  const kind = observer?.welcome.kind ?? "task";
  const lease = await insertOrphan(context, orphanRecord(context, run, epoch, ageMs, kind), decision);
  if (lease === null) return null;
  onDecision({ runId, ...decision });
  if (observer === null) return finalizeOrphan(context, run, lease, await findCgroup(context, run), exit);
  await store.saveRun(lease, gatedChange(observer.welcome));
  const link = await host.attach(run, epoch).catch(() => null);
  const record = await store.getRun(runId);
  if (record === null) return null;
  const live = restoreLiveRun(context, record, lease, link?.welcome ?? null);
  // The record was created just now, so it has no start time.
  live.startedAt = null;
  if (link === null) {
    // The anchor answered before, so the connection is lost.
    context.track(runId, reattach(live));
    return live;
  }
  bindLink(live, link, true);
  keepGateClosed(live, link);
  return live;
}

/** Creates a record for a populated cgroup of this state directory that has none, and ends its processes. */
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

/** True if the supervisor that created the record for a directory ended before it recorded the run's cgroup. */
export function isInterruptedOrphan({ leaseId, imported, root, boundary }: RunRecord): boolean {
  return leaseId === "" && imported === null && root === null && boundary === null;
}

/** Continues where that supervisor was interrupted. */
export async function finalizeInterruptedOrphan(
  context: SupervisorContext,
  run: RunAddress,
  lease: Lease,
): Promise<void> {
  await finalizeOrphan(context, run, lease, await findCgroup(context, run));
}

async function findCgroup(
  { host }: SupervisorContext,
  { instanceId, runId }: RunAddress,
): Promise<CgroupRef | null> {
  const all = await host.listRunCgroups(instanceId);
  return all.find((each) => each.runId === runId) ?? null;
}

/** Ends an orphan without an anchor, by its files or the `exit` read before, and kills the processes in its cgroup. */
async function finalizeOrphan(
  context: SupervisorContext,
  run: RunAddress,
  lease: Lease,
  boundary: CgroupRef | null,
  exit: AnchorExit | null = null,
): Promise<LiveRun | null> {
  const { store, host } = context;
  // Recorded first, so that the next supervisor finds the cgroup if this one dies.
  if (boundary !== null) await store.saveRun(lease, cgroupChange(boundary));
  const record = await store.getRun(run.runId);
  if (record === null) return null;
  const live = restoreLiveRun(context, record, lease, null);
  live.startedAt = null;
  try {
    finalizeDeadAnchor(live, await resolveOrphan(host, live.recordedIdentity, exit));
  } catch (cause) {
    detachRun(live, new NotSteering(run.runId, "its remaining processes could not be inspected"));
    throw cause;
  }
  await live.ended.promise;
  return null;
}

async function resolveOrphan(
  host: AnchorHost,
  recorded: RecordedIdentity,
  exit: AnchorExit | null,
): Promise<DeadAnchorResult> {
  if (exit !== null) return { kind: "exit", exit };
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

function cgroupChange(cgroup: CgroupRef): RunChange {
  const boundary = boundaryOf(cgroup);
  return { to: "weaker", tier: boundary.jobId === undefined ? "cgroup" : "job", boundary };
}

/** Null: another supervisor created the record first. */
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
