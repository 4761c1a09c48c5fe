import type { AnchorHost, AnchorLink, CgroupRef, RunAddress } from "../../anchor/host.js";
import { runConcurrently } from "../../async/semaphore.js";
import { defaults } from "../../defaults.js";
import { stopOrphanedAnchor } from "../attach/reattach.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import type { Decided } from "../decision.js";
import { recordOrphanCgroup, recordOrphanRun } from "./record-orphan.js";

/**
 * Directories and cgroups of these instances (this one's, and dead ones') that no open record accounts for: give those
 * a record that have none, and end what lives on behind an ended one. Then remove dead instances that are empty.
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
      // What cannot be read of one must not keep the others waiting.
      const message = `what instance ${instanceId} left could not be looked after; trying again`;
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
  const runIds = await context.host.listRunIds(instanceId);
  const work = runIds
    .filter((runId) => !context.runs.has(runId) && !context.cleanedUp.has(runId))
    .map((runId) => () => recoverDirectory(context, { instanceId, runId }, onDecision));
  taken.push(...(await runConcurrently(defaults.recoverAtOnce, work)));
  for (const boundary of await context.host.listRunCgroups(instanceId))
    // A directory in which nobody answers any more says nothing of who is left in the cgroup.
    if (!context.runs.has(boundary.runId) && !context.cleanedUp.has(boundary.path))
      taken.push(await recoverCgroup(context, instanceId, boundary, onDecision));
  if (instanceId !== context.instanceId && runIds.length === 0 && (await ownsNoRuns(context, instanceId)))
    await context.host.removeInstance(instanceId);
  return taken;
}

/** While it owns a record, its directory is what tells that it was of this machine, and that it is dead. */
async function ownsNoRuns({ store }: SupervisorContext, instanceId: string): Promise<boolean> {
  return (await store.listOwnedRunIds(instanceId)).length === 0;
}

/** A run directory without an open record: its record has ended (and it is kept for its output), or it has none. */
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
    // Whoever listens and does not answer now may do so at the next look.
    if (answer.kind !== "nobody") return null;
  }
  cleanedUp.add(run.runId);
  return null;
}

/** Of one that the store has forgotten just now everything is known; the next look finds its record. */
async function isInLocalCopy(context: SupervisorContext, runId: string): Promise<boolean> {
  const copy = await context.localCopy?.get(runId);
  if (copy === null || copy === undefined) return false;
  context.storeMayHaveRolledBack = true;
  return true;
}

type AnchorProbe =
  | { readonly kind: "observer"; readonly observer: AnchorLink }
  | { readonly kind: "silence" }
  | { readonly kind: "nobody" };

async function probeAnchor(host: AnchorHost, run: RunAddress): Promise<AnchorProbe> {
  try {
    const observer = await host.attach(run, 0);
    return observer === null ? { kind: "nobody" } : { kind: "observer", observer };
  } catch {
    return { kind: "silence" };
  }
}

/** A run that is being forgotten loses its directory before its record. */
async function directoryExists(
  { host }: SupervisorContext,
  { instanceId, runId }: RunAddress,
): Promise<boolean> {
  return (await host.listRunIds(instanceId)).includes(runId);
}

/** A cgroup that outlived its run's directory, or its record's end. */
async function recoverCgroup(
  context: SupervisorContext,
  instanceId: string,
  { runId, ...boundary }: CgroupRef & { readonly runId: string },
  onDecision: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host, cleanedUp } = context;
  // What cannot be looked at is left for the next look; it must not keep the others from being seen to.
  const [state] = await host.inspectCgroups([boundary]).catch(() => []);
  if (state !== "populated") return null;
  const record = await store.getRun(runId);
  if (record !== null && record.state !== "exited") return null;
  // None on record: its directory was imported when nobody could be asked. The host vouches for it.
  if (record !== null && record.boundary !== null && record.boundary.cgroupInode !== boundary.inode)
    return null;
  // Its anchor is there, and sees to it; or it is busy now, and nothing is concluded from that.
  const answer = await probeAnchor(host, { instanceId, runId });
  if (answer.kind === "observer") answer.observer.close();
  if (answer.kind !== "nobody") return null;
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
  // Whoever would not go is looked at again.
  if (survivors.length === 0) cleanedUp.add(boundary.path);
  return null;
}
