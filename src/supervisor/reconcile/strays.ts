import type { Boundary, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { atMost } from "../at-most.js";
import type { Context } from "../context.js";
import type { LiveRun } from "../live-run.js";
import { stopEndedElsewhere } from "../regain.js";
import { importBoundary, importRun } from "./import-run.js";

/**
 * Directories and cgroups of these instances (this one's, and dead ones') that no open record accounts for: give those
 * a record that have none, and end what lives on behind an ended one. Then remove dead instances that are empty.
 */
export async function takeUpStrays(
  context: Context,
  instanceIds: readonly string[],
): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  for (const instanceId of instanceIds)
    try {
      taken.push(...(await takeUpInstance(context, instanceId)));
    } catch (cause) {
      // What cannot be read of one must not keep the others waiting.
      const message = `what instance ${instanceId} left could not be looked after; trying again`;
      context.report({ runId: null, message, cause });
    }
  return taken;
}

async function takeUpInstance(context: Context, instanceId: string): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  const runIds = await context.host.runIds(instanceId);
  const work = runIds
    .filter((runId) => !context.live.has(runId) && !context.settled.has(runId))
    .map((runId) => () => takeUpDirectory(context, { instanceId, runId }));
  taken.push(...(await atMost(defaults.recoverAtOnce, work)));
  for (const boundary of await context.host.boundaries(instanceId))
    if (!context.live.has(boundary.runId) && !context.settled.has(boundary.runId))
      taken.push(await takeUpBoundary(context, instanceId, boundary));
  if (instanceId !== context.instanceId && runIds.length === 0 && (await holdsNothing(context, instanceId)))
    await context.host.removeInstance(instanceId);
  return taken;
}

/** While it owns a record, its directory is what tells that it was of this machine, and that it is dead. */
async function holdsNothing({ store }: Context, instanceId: string): Promise<boolean> {
  return (await store.heldRuns(instanceId)).length === 0;
}

/** A run directory without an open record: its record has ended (and it is kept for its output), or it has none. */
async function takeUpDirectory(context: Context, run: RunAddress): Promise<LiveRun | null> {
  const { store, host, settled } = context;
  const record = await store.getRun(run.runId);
  if (record === null) return importRun(context, run);
  if (record.state !== "exited") return null;
  if (record.bootId === host.machine.bootId) {
    // Undefined: somebody is there and does not answer, so the next look asks again.
    const observer = await host.attach(run, 0).catch(() => undefined);
    if (observer !== null && observer !== undefined) stopEndedElsewhere(context, observer);
    if (observer !== null) return null;
  }
  settled.add(run.runId);
  return null;
}

/** A cgroup that outlived its run's directory, or its record's end. */
async function takeUpBoundary(
  context: Context,
  instanceId: string,
  { runId, ...boundary }: Boundary & { readonly runId: string },
): Promise<LiveRun | null> {
  const { store, host, settled } = context;
  const [state] = await host.inspectBoundaries([boundary]);
  if (state !== "populated") return null;
  const record = await store.getRun(runId);
  if (record === null) return importBoundary(context, { instanceId, runId }, boundary);
  if (record.state !== "exited" || record.boundary?.cgroupInode !== boundary.inode) return null;
  // Somebody may be about to say the end of it.
  const observer = await host.attach({ instanceId, runId }, 0).catch(() => null);
  observer?.close();
  if (observer !== null) return null;
  const { graceMs } = record.policy;
  const { killed, survivors } = await host.reap({
    root: null,
    cgroup: boundary,
    leaseId: record.leaseId,
    graceMs,
  });
  await store.appendEvents([
    {
      runId,
      at: context.clock.wall(),
      rootPid: record.root?.pid ?? null,
      descendants: 0,
      type: "cleanup",
      data: { mode: "reap", residue: killed, survivors: survivors.length },
    },
  ]);
  settled.add(runId);
  return null;
}
