import type { AnchorHost, AnchorLink, Boundary, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { atMost } from "../at-most.js";
import type { Context } from "../context.js";
import type { LiveRun } from "../live-run.js";
import { stopEndedElsewhere } from "../regain.js";
import { importBoundary, importRun } from "./import-run.js";
import type { Decided } from "./reconcile.js";

/**
 * Directories and cgroups of these instances (this one's, and dead ones') that no open record accounts for: give those
 * a record that have none, and end what lives on behind an ended one. Then remove dead instances that are empty.
 */
export async function takeUpStrays(
  context: Context,
  instanceIds: readonly string[],
  decided: (decision: Decided) => void,
): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  for (const instanceId of instanceIds)
    try {
      taken.push(...(await takeUpInstance(context, instanceId, decided)));
    } catch (cause) {
      // What cannot be read of one must not keep the others waiting.
      const message = `what instance ${instanceId} left could not be looked after; trying again`;
      context.report({ runId: null, message, cause });
    }
  return taken;
}

async function takeUpInstance(
  context: Context,
  instanceId: string,
  decided: (decision: Decided) => void,
): Promise<readonly (LiveRun | null)[]> {
  const taken: (LiveRun | null)[] = [];
  const runIds = await context.host.runIds(instanceId);
  const work = runIds
    .filter((runId) => !context.live.has(runId) && !context.settled.has(runId))
    .map((runId) => () => takeUpDirectory(context, { instanceId, runId }, decided));
  taken.push(...(await atMost(defaults.recoverAtOnce, work)));
  for (const boundary of await context.host.boundaries(instanceId))
    // A directory in which nobody answers any more says nothing of who is left in the cgroup.
    if (!context.live.has(boundary.runId) && !context.settled.has(boundary.path))
      taken.push(await takeUpBoundary(context, instanceId, boundary, decided));
  if (instanceId !== context.instanceId && runIds.length === 0 && (await holdsNothing(context, instanceId)))
    await context.host.removeInstance(instanceId);
  return taken;
}

/** While it owns a record, its directory is what tells that it was of this machine, and that it is dead. */
async function holdsNothing({ store }: Context, instanceId: string): Promise<boolean> {
  return (await store.heldRuns(instanceId)).length === 0;
}

/** A run directory without an open record: its record has ended (and it is kept for its output), or it has none. */
async function takeUpDirectory(
  context: Context,
  run: RunAddress,
  decided: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host, settled } = context;
  const record = await store.getRun(run.runId);
  if (record === null) {
    if (!(await wasTold(context, run.runId)) && (await isThere(context, run)))
      return importRun(context, run, decided);
    return null;
  }
  if (record.state !== "exited") return null;
  if (record.bootId === host.machine.bootId) {
    const answer = await ask(host, run);
    if (answer.kind === "observer") stopEndedElsewhere(context, answer.observer);
    // Whoever listens and does not answer now may do so at the next look.
    if (answer.kind !== "nobody") return null;
  }
  settled.add(run.runId);
  return null;
}

/** Of one that the store has forgotten just now everything is known; the next look finds its record. */
async function wasTold(context: Context, runId: string): Promise<boolean> {
  const told = await context.ledger?.get(runId);
  if (told === null || told === undefined) return false;
  context.doubted = true;
  return true;
}

type Answer =
  | { readonly kind: "observer"; readonly observer: AnchorLink }
  | { readonly kind: "silence" }
  | { readonly kind: "nobody" };

async function ask(host: AnchorHost, run: RunAddress): Promise<Answer> {
  try {
    const observer = await host.attach(run, 0);
    return observer === null ? { kind: "nobody" } : { kind: "observer", observer };
  } catch {
    return { kind: "silence" };
  }
}

/** A run that is being forgotten loses its directory before its record. */
async function isThere({ host }: Context, { instanceId, runId }: RunAddress): Promise<boolean> {
  return (await host.runIds(instanceId)).includes(runId);
}

/** A cgroup that outlived its run's directory, or its record's end. */
async function takeUpBoundary(
  context: Context,
  instanceId: string,
  { runId, ...boundary }: Boundary & { readonly runId: string },
  decided: (decision: Decided) => void,
): Promise<LiveRun | null> {
  const { store, host, settled } = context;
  // What cannot be looked at is left for the next look; it must not keep the others from being seen to.
  const [state] = await host.inspectBoundaries([boundary]).catch(() => []);
  if (state !== "populated") return null;
  const record = await store.getRun(runId);
  if (record !== null && record.state !== "exited") return null;
  // None on record: its directory was imported when nobody could be asked. The host vouches for it.
  if (record !== null && record.boundary !== null && record.boundary.cgroupInode !== boundary.inode)
    return null;
  // Its anchor is there, and sees to it; or it is busy now, and nothing is concluded from that.
  const answer = await ask(host, { instanceId, runId });
  if (answer.kind === "observer") answer.observer.close();
  if (answer.kind !== "nobody") return null;
  if (record === null) {
    if (await wasTold(context, runId)) return null;
    return importBoundary(context, { instanceId, runId }, boundary, decided);
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
  if (survivors.length === 0) settled.add(boundary.path);
  return null;
}
