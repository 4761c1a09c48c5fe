import { rmSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { errnoCode } from "../../home/errno.js";
import { readOwnFile, WRITE_FLAGS } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import type { RunRecord } from "../../model/run.js";
import { applyRunChange, newRunRecord } from "../runs/apply-change.js";
import type { Lease, RunFilter, RunStore } from "../runs/contract.js";
import { writeSmallFile } from "./write-small-file.js";

/** A run as it was last written to a shared store. */
export interface CopiedRun {
  readonly record: RunRecord;
  /** The highest epoch that was sent to the anchor. Above the record's epoch only while the store cannot be written. */
  readonly anchorEpoch: number;
}

/**
 * Local copy of the runs that this state directory wrote to a shared store: open runs, and recent ends. The store may be
 * rolled back to a backup; the runs are not.
 */
export interface RunCopy {
  get(runId: string): Promise<CopiedRun | null>;
  /** Writes the copy to disk. An end survives power loss. */
  keep(copied: CopiedRun): Promise<void>;
  /** Keeps the copy in the memory of this process: not worth a write. */
  keepInMemory(copied: CopiedRun): void;
  /** Deletes copies of ended runs. Copies of open runs stay. */
  deleteEnded(runIds: readonly string[]): Promise<void>;
  /** Deletes a copy, open or ended. */
  delete(runId: string): Promise<void>;
  runIds(): Promise<readonly string[]>;
  /** The last run that this process wrote. A store that has it has all earlier ones. */
  readonly newest: string | null;
}

const OPEN_SUFFIX = ".json";
const ENDED_SUFFIX = ".ended.json";

/** Ended runs between two removals of old copies. */
const RUNS_PER_PRUNE = 100;

export function localCopyDirectory(home: string): string {
  return join(home, "ledger");
}

/** One file for each run, so that all supervisors of a state directory can write at once. */
export class FileRunCopy implements RunCopy {
  readonly #directory: string;
  readonly #open = new Map<string, CopiedRun>();
  /** One write at a time for each run, so that the last one stays. */
  readonly #writing = new Map<string, Promise<void>>();
  #ends = 0;
  newest: string | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async get(runId: string): Promise<CopiedRun | null> {
    return (
      this.#open.get(runId) ??
      (await this.#read(runId, ENDED_SUFFIX)) ??
      (await this.#read(runId, OPEN_SUFFIX))
    );
  }

  keepInMemory(copied: CopiedRun): void {
    this.#open.set(copied.record.runId, copied);
  }

  async keep(copied: CopiedRun): Promise<void> {
    const { runId, state } = copied.record;
    if (state === "exited") this.#open.delete(runId);
    else this.#open.set(runId, copied);
    const before = this.#writing.get(runId) ?? Promise.resolve();
    const writing = before.catch(() => undefined).then(() => this.#write(copied));
    this.#writing.set(runId, writing);
    try {
      await writing;
      this.newest = runId;
    } finally {
      if (this.#writing.get(runId) === writing) this.#writing.delete(runId);
    }
  }

  async deleteEnded(runIds: readonly string[]): Promise<void> {
    for (const runId of runIds) {
      await rm(this.#path(runId, ENDED_SUFFIX), { force: true });
      if (this.newest === runId) this.newest = null;
    }
  }

  async delete(runId: string): Promise<void> {
    this.#open.delete(runId);
    await rm(this.#path(runId, OPEN_SUFFIX), { force: true });
    await this.deleteEnded([runId]);
  }

  async runIds(): Promise<readonly string[]> {
    const names = await this.#names();
    const ids = names.flatMap((name) => {
      const end = [ENDED_SUFFIX, OPEN_SUFFIX].find((suffix) => name.endsWith(suffix));
      return end === undefined || name.startsWith(".") ? [] : [name.slice(0, -end.length)];
    });
    return [...new Set([...ids, ...this.#open.keys()])];
  }

  async #write(copied: CopiedRun): Promise<void> {
    const { runId, state } = copied.record;
    const ended = state === "exited";
    const text = JSON.stringify(copied);
    const path = this.#path(runId, ended ? ENDED_SUFFIX : OPEN_SUFFIX);
    // Power loss also ends open runs, and then their records need no copy.
    const durable = ended;
    try {
      // If this process dies within the write, the damaged file counts as missing: nothing was replaced.
      await writeSmallFile(path, WRITE_FLAGS.create, text, durable);
    } catch (error) {
      if (errnoCode(error) !== "EEXIST") throw error;
      const draft = join(this.#directory, `.${runId}.${process.pid}`);
      await writeSmallFile(draft, WRITE_FLAGS.truncate, text, durable);
      await renameFile(draft, path).catch((failed: unknown) => {
        rmSync(draft, { force: true });
        throw failed;
      });
    }
    if (!ended) return;
    rmSync(this.#path(runId, OPEN_SUFFIX), { force: true });
    if (this.#ends++ % RUNS_PER_PRUNE === 0) await this.#prune();
  }

  async #prune(): Promise<void> {
    const names = (await this.#names()).filter((name) => name.endsWith(ENDED_SUFFIX));
    const ends = await Promise.all(
      names.map(async (name) => {
        const path = join(this.#directory, name);
        return { path, at: (await stat(path).catch(() => null))?.mtimeMs ?? 0 };
      }),
    );
    const newestFirst = ends.toSorted((one, other) => other.at - one.at);
    const since = Date.now() - defaults.ledgerEndsKeptMs;
    for (const [at, end] of newestFirst.entries())
      if (at >= defaults.ledgerEndsKept || end.at < since) await rm(end.path, { force: true });
  }

  async #names(): Promise<readonly string[]> {
    return readdir(this.#directory).catch((error: unknown) => {
      if (errnoCode(error) === "ENOENT") return [];
      throw error;
    });
  }

  /** Null also if the file is damaged. */
  async #read(runId: string, suffix: string): Promise<CopiedRun | null> {
    try {
      return JSON.parse(await readOwnFile(this.#path(runId, suffix))) as CopiedRun;
    } catch {
      return null;
    }
  }

  #path(runId: string, suffix: string): string {
    return join(this.#directory, `${runId}${suffix}`);
  }
}

/** The copied runs that match the filter, newest first. */
export async function listCopiedRuns(
  localCopy: Pick<RunCopy, "runIds" | "get">,
  filter: RunFilter,
): Promise<readonly RunRecord[]> {
  const records: RunRecord[] = [];
  for (const runId of await localCopy.runIds()) {
    const copied = await localCopy.get(runId);
    if (copied !== null && matchesRunFilter(copied.record, filter)) records.push(copied.record);
  }
  const newestFirst = records.toSorted((one, other) => other.createdAt - one.createdAt);
  return filter.limit === undefined ? newestFirst : newestFirst.slice(0, filter.limit);
}

/** Applies only the parts of the filter that the lists of the command line use. */
export function matchesRunFilter(run: RunRecord, filter: RunFilter): boolean {
  const { states, hidden, hostIds, sessionKey, agentId, labels = {} } = filter;
  return (
    (states === undefined || states.includes(run.state)) &&
    (hostIds === undefined || hostIds.includes(run.hostId)) &&
    (hidden !== false || run.hiddenAt === null) &&
    (sessionKey === undefined || run.sessionKey === sessionKey) &&
    (agentId === undefined || run.agentId === agentId) &&
    Object.entries(labels).every(([key, value]) => run.labels[key] === value)
  );
}

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
    insertRun: async (run, leaseMs, events, gated) => {
      const lease = await store.insertRun(run, leaseMs, events, gated);
      const record = newRunRecord(run, 0, gated);
      // A copy on disk lets a later supervisor find the run's processes; this run has none.
      if (gated === undefined) localCopy.keepInMemory({ record, anchorEpoch: run.leaseEpoch });
      else await keep(record);
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
    finalizeRun: async (lease, end, events) => {
      const record = await store.finalizeRun(lease, end, events);
      await keep(record, (await localCopy.get(lease.runId))?.anchorEpoch);
      return record;
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
