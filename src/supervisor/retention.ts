import type { AnchorHost } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { RunFilter, RunStore } from "../store/runs/store.js";
import type { Retained, Retention } from "./api.js";
import { runAddressOf } from "./run/recorded-identity.js";
import type { SupervisorContext } from "./run/live-run.js";

/** Which runs are of this state directory. In a store of its own all of them are. */
export async function stateDirectoryFilter(
  { shared }: Pick<RunStore, "shared">,
  host: Pick<AnchorHost, "listInstances">,
  stateId: string | null,
): Promise<Pick<RunFilter, "ofState">> {
  if (!shared) return {};
  const instances = await host.listInstances();
  return { ofState: { stateId, instanceIds: instances.map(({ instanceId }) => instanceId) } };
}

/** Looked at in one go: enough to be quick, little enough to leave the store to others in between. */
const PAGE = 200;

/**
 * Forget ended runs beyond what is kept: first the old, then the too many; of the rest, output beyond the quota, the
 * oldest first. A directory goes before its record: one without a record would be taken for a run to be imported.
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
  // Age counts up to the newest run at most: a clock that was set ahead must not make everything old.
  const [newest] = await store.listRuns({ ...ours, limit: 1 });
  const now = Math.min(clock.wall(), newest?.createdAt ?? 0);
  let records = await deleteEnded(context, ours, now - endedKeptMs, Infinity);
  const tooMany = (await store.countEndedRuns(ours)) - endedKept;
  records += await deleteEnded(context, ours, Number.MAX_SAFE_INTEGER, tooMany);
  return { records, outputs: await deleteOutput(context, outputKeptBytes) };
}

/** At most `most` of those that ended before. */
async function deleteEnded(
  context: SupervisorContext,
  ours: OwnRunsFilter,
  endedBefore: number,
  most: number,
): Promise<number> {
  const { store, host, cleanedUp } = context;
  let forgotten = 0;
  while (forgotten < most) {
    const limit = Math.min(PAGE, most - forgotten);
    const page = await store.listRuns({ ...ours, endedBefore, limit });
    for (const record of page) {
      await host.removeRunDirectory(runAddressOf(record));
      cleanedUp.delete(record.runId);
    }
    const deleted = await store.deleteRuns(page.map(({ runId }) => runId));
    forgotten += deleted;
    // All there are; or another supervisor forgets the same ones.
    if (deleted < limit) break;
  }
  return forgotten;
}

type OwnRunsFilter = Pick<RunFilter, "ofState" | "notFrom">;

/** A directory of a living instance is that one's to remove; one of another state directory can be removed only there. */
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
      const endedAt = (await store.getRun(runId))?.endedAt ?? null;
      if (endedAt !== null) kept.push({ ...run, bytes, at: endedAt });
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
