import type { RunRecord } from "../../model/run.js";
import { applyRunChange, newRunRecord } from "../runs/apply-change.js";
import type { Lease, RunStore } from "../runs/store.js";
import type { RunCopy } from "./run-copy.js";

/**
 * The same store; each write is also recorded in the local copy after the store has answered, so the copy never has more
 * than the store had. A failure to write the copy is reported and changes nothing else.
 */
export function withRunCopy(
  store: RunStore,
  localCopy: RunCopy,
  failing: (runId: string, cause: unknown) => void,
): RunStore {
  const keep = (record: RunRecord, anchorEpoch = 0): Promise<void> =>
    localCopy
      .keep({ record, anchorEpoch: Math.max(anchorEpoch, record.leaseEpoch) })
      .catch((cause: unknown) => failing(record.runId, cause));
  const keepAsRead = async (runId: string, lease: Partial<Lease> = {}): Promise<void> => {
    const copied = await localCopy.get(runId);
    const read = await store.getRun(runId).catch(() => null);
    if (read !== null) return keep(read, copied?.anchorEpoch);
    // The store became unavailable after it answered. The new owner and epoch are still recorded.
    const { ownerInstanceId, epoch: leaseEpoch } = lease;
    if (copied === null || ownerInstanceId === undefined || leaseEpoch === undefined) return;
    await keep({ ...copied.record, ownerInstanceId, leaseEpoch }, copied.anchorEpoch);
  };
  const writes = {
    insertRun: async (run, leaseMs, events) => {
      const lease = await store.insertRun(run, leaseMs, events);
      // No process of the run exists yet, so later processes of Holdfast need no copy.
      localCopy.keepInMemory({ record: newRunRecord(run, 0), anchorEpoch: run.leaseEpoch });
      return lease;
    },
    saveRun: async (lease, change, events) => {
      const written = await store.saveRun(lease, change, events);
      const copied = await localCopy.get(lease.runId);
      if (copied === null || !written) {
        if (copied === null || change.to === "exited") await keepAsRead(lease.runId);
        return written;
      }
      const record = { ...applyRunChange(copied.record, change), updatedAt: Date.now() };
      if (change.to === "output") localCopy.keepInMemory({ ...copied, record });
      else await keep(record, copied.anchorEpoch);
      return written;
    },
    acquireLease: async (claim, events) => {
      const lease = await store.acquireLease(claim, events);
      // Another owner may have written the record since.
      if (lease !== null) await keepAsRead(claim.runId, lease);
      return lease;
    },
    acquireAndFinalizeRun: async (claim, end, events) => {
      const ended = await store.acquireAndFinalizeRun(claim, end, events);
      if (ended) await keepAsRead(claim.runId);
      return ended;
    },
    restoreRun: async (run, leaseMs, events) => {
      const restored = await store.restoreRun(run, leaseMs, events);
      if (restored) await keep(run);
      return restored;
    },
    hideRuns: async (runIds, at) => {
      const hidden = await store.hideRuns(runIds, at);
      for (const runId of runIds) if ((await localCopy.get(runId)) !== null) await keepAsRead(runId);
      return hidden;
    },
    deleteRuns: async (runIds) => {
      // Deleted from the copy first: a record in the copy and not in the store would be restored.
      await localCopy.deleteEnded(runIds);
      return store.deleteRuns(runIds);
    },
  } satisfies Partial<RunStore>;
  return overrideMethods(store, writes);
}

/** The same object with some methods replaced. A proxy, because properties of a store may change and be getters. */
export function overrideMethods<Target extends object>(target: Target, methods: Partial<Target>): Target {
  return new Proxy(target, {
    get(_, name): unknown {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name);
      const found: unknown = Reflect.get(target, name, target);
      return typeof found === "function" ? (found as () => unknown).bind(target) : found;
    },
  });
}
