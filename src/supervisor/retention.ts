import type { AnchorHost } from "../anchor/host-interface.js";
import { defaults } from "../defaults.js";
import type { RunFilter, RunStore } from "../store/runs/contract.js";
import type { Retained, Retention } from "./api.js";
import type { RunRecord } from "../model/run.js";
import { probeAnchor } from "./reconcile/evidence.js";
import { cgroupOf, runAddressOf } from "./run/recorded-identity.js";
import type { SupervisorContext } from "./run/live-run.js";

/** Selects the runs of this state directory. In a store that is not shared, these are all runs. */
export async function stateDirectoryFilter(
  { shared }: Pick<RunStore, "shared">,
  host: Pick<AnchorHost, "listInstances">,
  stateId: string | null,
): Promise<Pick<RunFilter, "ofState">> {
  if (!shared) return {};
  const instances = await host.listInstances();
  return { ofState: { stateId, instanceIds: instances.map(({ instanceId }) => instanceId) } };
}

/** Records per query: small enough not to block other users of the store. */
const PAGE = 200;

/**
 * Deletes ended runs that are too old, then those beyond the limit, then output beyond its quota, oldest first. A
 * directory is removed before its record: a directory without a record would be recovered as an orphan. For the same
 * reason, and because its files are the way to its processes, a run that may have processes is kept.
 */
export async function applyRetention(
  context: SupervisorContext,
  limits: Partial<Retention> = {},
): Promise<Retained> {
  const {
    endedKeptMs = defaults.endedKeptMs,
    endedKept = defaults.endedKept,
    outputKeptBytes = defaults.outputKeptBytes,
  } = limits;
  const { store, clock } = context;
  const ours = await ownRunsFilter(context);
  // The newest run limits the age: a wall clock that was set ahead must not make every run old.
  const [newest] = await store.listRuns({ ...ours, limit: 1 });
  const now = Math.min(clock.wall(), newest?.createdAt ?? 0);
  let records = await deleteEnded(context, ours, now - endedKeptMs, Infinity);
  const tooMany = (await store.countEndedRuns(ours)) - endedKept;
  records += await deleteEnded(context, ours, Number.MAX_SAFE_INTEGER, tooMany);
  return { records, outputs: await deleteOutput(context, outputKeptBytes) };
}

/** Deletes at most `most` runs that ended before the time. */
async function deleteEnded(
  context: SupervisorContext,
  ours: OwnRunsFilter,
  endedBefore: number,
  most: number,
): Promise<number> {
  const { store, host, cleanedUp } = context;
  const kept = new Set<string>();
  let total = 0;
  while (total < most) {
    const limit = Math.min(PAGE, most - total) + kept.size;
    const page = await store.listRuns({ ...ours, endedBefore, limit });
    const ended: RunRecord[] = [];
    for (const record of page) {
      if (kept.has(record.runId)) continue;
      if (await mayHaveProcesses(host, record)) {
        kept.add(record.runId);
        continue;
      }
      await host.removeRunDirectory(runAddressOf(record));
      cleanedUp.delete(record.runId);
      ended.push(record);
    }
    const deleted = await store.deleteRuns(ended.map(({ runId }) => runId));
    total += deleted;
    // No more runs, or another supervisor deletes the same ones.
    if (page.length < limit || deleted < ended.length) break;
  }
  return total;
}

/** True if an anchor listens in the directory of an ended run, or its cgroup is not known to be empty. */
async function mayHaveProcesses(host: AnchorHost, record: RunRecord): Promise<boolean> {
  if (record.emptiness === "proven" || record.bootId !== host.machine.bootId) return false;
  const run = runAddressOf(record);
  const anchor = await probeAnchor(host, run);
  if (anchor.kind === "observer") anchor.observer.close();
  if (anchor.kind !== "none") return true;
  // As recovery finds it: without a recorded cgroup, its name identifies the run.
  const named = await host.listRunCgroups(run.instanceId);
  const boundary = cgroupOf(record) ?? named.find(({ runId }) => runId === run.runId);
  if (boundary === undefined) return false;
  const [state = "unknown"] = await host.inspectCgroups([boundary]).catch(() => []);
  return state === "populated" || state === "unknown";
}

type OwnRunsFilter = Pick<RunFilter, "ofState" | "notFrom">;

/** Only the live instance itself removes its directories, and only its own state directory has them. */
async function ownRunsFilter({
  store,
  host,
  instanceId,
  stateId,
}: SupervisorContext): Promise<OwnRunsFilter> {
  const others = (await host.listInstances()).filter((each) => each.alive && each.instanceId !== instanceId);
  const notFrom = others.map((each) => each.instanceId);
  return { notFrom, ...(await stateDirectoryFilter(store, host, stateId)) };
}

async function deleteOutput(context: SupervisorContext, keptBytes: number): Promise<number> {
  const { store, host, instanceId, runs } = context;
  const kept: {
    readonly instanceId: string;
    readonly runId: string;
    readonly bytes: number;
    readonly at: number;
  }[] = [];
  let total = 0;
  for (const instance of await host.listInstances()) {
    if (instance.alive && instance.instanceId !== instanceId) continue;
    for (const runId of await host.listRunIds(instance.instanceId)) {
      const run = { instanceId: instance.instanceId, runId };
      const bytes = await host.directorySize(run);
      total += bytes;
      if (runs.has(runId)) continue;
      const record = await store.getRun(runId);
      const endedAt = record?.endedAt ?? null;
      if (record !== null && endedAt !== null && !(await mayHaveProcesses(host, record)))
        kept.push({ ...run, bytes, at: endedAt });
    }
  }
  let removed = 0;
  for (const { bytes, at: _, ...run } of kept.toSorted((one, other) => one.at - other.at)) {
    if (total <= keptBytes) break;
    await host.removeRunDirectory(run);
    total -= bytes;
    removed++;
  }
  return removed;
}
