import { defaults } from "../defaults.js";
import type { RunFilter } from "../store/store.js";
import type { Retained, Retention } from "./api.js";
import type { Context } from "./context.js";
import { addressOf } from "./reconcile/look.js";
import { stateScope } from "./state-scope.js";

/** Looked at in one go: enough to be quick, little enough to leave the store to others in between. */
const PAGE = 200;

/**
 * Forget ended runs beyond what is kept: first the old, then the too many; of the rest, output beyond the quota, the
 * oldest first. A directory goes before its record: one without a record would be taken for a run to be imported.
 */
export async function retain(context: Context, limits: Partial<Retention> = {}): Promise<Retained> {
  const {
    endedKeptMs = defaults.endedKeptMs,
    endedKept = defaults.endedKept,
    outputKeptBytes = defaults.outputKeptBytes,
  } = limits;
  const { store, clock } = context;
  const ours = await oursToForget(context);
  // Age counts up to the newest run at most: a clock that was set ahead must not make everything old.
  const [newest] = await store.listRuns({ ...ours, limit: 1 });
  const now = Math.min(clock.wall(), newest?.createdAt ?? 0);
  let records = await forget(context, ours, now - endedKeptMs, Infinity);
  const tooMany = (await store.countEnded(ours)) - endedKept;
  records += await forget(context, ours, Number.MAX_SAFE_INTEGER, tooMany);
  return { records, outputs: await forgetOutput(context, outputKeptBytes) };
}

/** At most `most` of those that ended before. */
async function forget(context: Context, ours: Ours, endedBefore: number, most: number): Promise<number> {
  const { store, host, settled } = context;
  let forgotten = 0;
  while (forgotten < most) {
    const limit = Math.min(PAGE, most - forgotten);
    const page = await store.listRuns({ ...ours, endedBefore, limit });
    for (const record of page) {
      await host.discard(addressOf(record));
      settled.delete(record.runId);
    }
    const deleted = await store.deleteRuns(page.map(({ runId }) => runId));
    forgotten += deleted;
    // All there are; or another supervisor forgets the same ones.
    if (deleted < limit) break;
  }
  return forgotten;
}

type Ours = Pick<RunFilter, "ofState" | "notFrom">;

/** A directory of a living instance is that one's to remove; one of another state directory can be removed only there. */
async function oursToForget({ store, host, instanceId, stateId }: Context): Promise<Ours> {
  const others = (await host.instances()).filter((each) => each.alive && each.instanceId !== instanceId);
  const notFrom = others.map((each) => each.instanceId);
  return { notFrom, ...(await stateScope(store, host, stateId)) };
}

async function forgetOutput(context: Context, keptBytes: number): Promise<number> {
  const { store, host, instanceId, live } = context;
  const kept: {
    readonly instanceId: string;
    readonly runId: string;
    readonly bytes: number;
    readonly at: number;
  }[] = [];
  let total = 0;
  for (const instance of await host.instances()) {
    if (instance.alive && instance.instanceId !== instanceId) continue;
    for (const runId of await host.runIds(instance.instanceId)) {
      const run = { instanceId: instance.instanceId, runId };
      const bytes = await host.size(run);
      total += bytes;
      if (live.has(runId)) continue;
      const endedAt = (await store.getRun(runId))?.endedAt ?? null;
      if (endedAt !== null) kept.push({ ...run, bytes, at: endedAt });
    }
  }
  let removed = 0;
  for (const { bytes, at: _, ...run } of kept.toSorted((one, other) => one.at - other.at)) {
    if (total <= keptBytes) break;
    await host.discard(run);
    total -= bytes;
    removed++;
  }
  return removed;
}
