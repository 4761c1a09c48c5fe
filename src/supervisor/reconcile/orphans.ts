import type { CgroupRef, RunAddress } from "../../anchor/host-interface.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { stopOrphanedAnchor } from "../attach/reattach.js";
import type { Decided } from "../reconcile-decision.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { probeAnchor } from "./evidence.js";
import { recordOrphanCgroup, recordOrphanRun } from "./create-orphan-record.js";

/**
 * Handles directories and cgroups of this and of dead instances that have no open record: creates missing records, and
 * stops processes of ended runs. Then removes empty dead instances.
 */
export async function recoverOrphans(
  context: SupervisorContext,
  instanceIds: readonly string[],
  onDecision: (decision: Decided) => void,
): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  for (const instanceId of instanceIds)
    try {
      taken.push(...(await recoverInstance(context, instanceId, onDecision)));
    } catch (cause) {
      // A failure of one instance must not prevent the others.
      const message = `the orphans of instance ${instanceId} could not be recovered; trying again`;
      context.report({ runId: null, message, cause });
    }
  return taken;
}

async function recoverInstance(
  context: SupervisorContext,
  instanceId: string,
  onDecision: (decision: Decided) => void,
): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  await discardWarmAnchors(context, instanceId);
  const runIds = await context.host.listRunIds(instanceId);
  const work = runIds
    .filter((runId) => !context.runs.has(runId) && !context.cleanedUp.has(runId))
    .map((runId) => () => recoverDirectory(context, { instanceId, runId }, onDecision));
  taken.push(...(await runConcurrently(defaults.recoverAtOnce, work)));
  for (const boundary of await context.host.listRunCgroups(instanceId))
    // A cgroup may have processes even if no anchor answers for its directory.
    if (!context.runs.has(boundary.runId) && !context.cleanedUp.has(boundary.path))
      taken.push(await recoverCgroup(context, instanceId, boundary, onDecision));
  if (instanceId !== context.instanceId && runIds.length === 0 && (await ownsNoRuns(context, instanceId)))
    await context.host.removeInstance(instanceId);
  return taken;
}

/** Removes the directories of anchors that ended before START. The directory of an open record is evidence, and stays. */
async function discardWarmAnchors(
  { host, store, runs }: SupervisorContext,
  instanceId: string,
): Promise<void> {
  for (const runId of await host.listWarmRunIds(instanceId)) {
    const record = runs.has(runId) ? null : await store.getRun(runId);
    if (!runs.has(runId) && (record === null || record.state === "exited"))
      await host.discardWarmAnchor({ instanceId, runId });
  }
}

/** While an instance owns a record, its directory shows that it was on this machine and is dead. */
async function ownsNoRuns({ store }: SupervisorContext, instanceId: string): Promise<boolean> {
  return (await store.listOwnedRunIds(instanceId)).length === 0;
}

/** Handles a run directory without an open record: the run has ended and its output is kept, or there is no record. */
async function recoverDirectory(
  context: SupervisorContext,
  run: RunAddress,
  onDecision: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host, cleanedUp } = context;
  const record = await store.getRun(run.runId);
  if (record === null) {
    if (!(await isInLocalCopy(context, run.runId)) && (await directoryExists(context, run)))
      return recordOrphanRun(context, run, onDecision);
    return null;
  }
  if (record.state !== "exited") return null;
  if (record.bootId === host.machine.bootId) {
    const answer = await probeAnchor(host, run);
    if (answer.kind === "observer") stopOrphanedAnchor(context, answer.observer);
    // An anchor that does not answer now may do so in the next pass.
    if (answer.kind !== "none") return null;
  }
  cleanedUp.add(run.runId);
  return null;
}

/** A record that the store lost is restored in the next pass. */
async function isInLocalCopy(context: SupervisorContext, runId: string): Promise<boolean> {
  const copy = await context.localCopy?.get(runId);
  if (copy === null || copy === undefined) return false;
  context.storeMayHaveRolledBack = true;
  return true;
}

/** Retention removes the directory of a run before its record. */
async function directoryExists(
  { host }: SupervisorContext,
  { instanceId, runId }: RunAddress,
): Promise<boolean> {
  return (await host.listRunIds(instanceId)).includes(runId);
}

/** Handles a cgroup without a directory, or of an ended run. */
async function recoverCgroup(
  context: SupervisorContext,
  instanceId: string,
  { runId, ...boundary }: CgroupRef & { readonly runId: string },
  onDecision: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host, cleanedUp } = context;
  // A failed query is repeated in the next pass.
  const [state] = await host.inspectCgroups([boundary]).catch(() => []);
  if (state !== "populated") return null;
  const record = await store.getRun(runId);
  if (record !== null && record.state !== "exited") return null;
  // Without a recorded cgroup, its name identifies the run.
  if (record !== null && record.boundary !== null && record.boundary.cgroupInode !== boundary.inode)
    return null;
  // A live anchor cleans up by itself; a silent one allows no conclusion.
  const answer = await probeAnchor(host, { instanceId, runId });
  if (answer.kind === "observer") answer.observer.close();
  if (answer.kind !== "none") return null;
  if (record === null) {
    if (await isInLocalCopy(context, runId)) return null;
    return recordOrphanCgroup(context, { instanceId, runId }, boundary, onDecision);
  }
  const { graceMs } = record.policy;
  const { killed, killMode, survivors } = await host.reap({
    root: null,
    cgroup: boundary,
    leaseId: record.leaseId === "" ? null : record.leaseId,
    graceMs,
  });
  await store.appendEvents([
    {
      runId,
      at: context.clock.wall(),
      rootPid: record.root?.pid ?? null,
      descendants: 0,
      type: "cleanup",
      data: { mode: killMode, residue: killed, survivors: survivors.length },
    },
  ]);
  // Survivors are tried again in the next pass.
  if (survivors.length === 0) cleanedUp.add(boundary.path);
  return null;
}
