import { defaults } from "../defaults.js";
import type { Retained, Retention } from "./api.js";
import type { Context } from "./context.js";
import { addressOf } from "./reconcile/look.js";

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
  // Age counts up to the newest run at most: a clock that was set ahead must not make everything old.
  const [newest] = await store.listRuns({ limit: 1 });
  const now = Math.min(clock.wall(), newest?.createdAt ?? 0);
  let records = await forget(context, now - endedKeptMs, Infinity);
  records += await forget(context, Number.MAX_SAFE_INTEGER, (await store.countEnded()) - endedKept);
  return { records, outputs: await forgetOutput(context, outputKeptBytes) };
}

/** At most `most` of those that ended before. */
async function forget(context: Context, endedBefore: number, most: number): Promise<number> {
  const { store, host, settled } = context;
  const others = await livingOthers(context);
  let forgotten = 0;
  // What stays is found again, before everything else: the oldest come first.
  let stayed = 0;
  while (forgotten < most) {
    const page = (await store.listRuns({ endedBefore, limit: stayed + PAGE })).slice(stayed);
    if (page.length === 0) break;
    const gone: string[] = [];
    for (const record of page) {
      if (others.has(record.originInstanceId) || forgotten + gone.length >= most) continue;
      await host.discard(addressOf(record));
      settled.delete(record.runId);
      gone.push(record.runId);
    }
    const deleted = await store.deleteRuns(gone);
    forgotten += deleted;
    stayed += page.length - deleted;
  }
  return forgotten;
}

/** A directory of a living instance is that one's to remove. */
async function livingOthers({ host, instanceId }: Context): Promise<ReadonlySet<string>> {
  const others = (await host.instances()).filter((each) => each.alive && each.instanceId !== instanceId);
  return new Set(others.map((each) => each.instanceId));
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
