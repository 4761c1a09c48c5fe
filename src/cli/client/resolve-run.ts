import type { RunAddress } from "../../anchor/host.js";
import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { RunNotFound, StoreAway, StoreUnreadable } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import { pickRunId, toRunIdPrefix, RUN_CANDIDATES } from "../runs/pick-run.js";
import { isStoreShared } from "../operator/elsewhere.js";
import type { LocalState } from "./local-state.js";

/** A run by its directory, its record, or both: either may be missing. */
export interface FoundRun {
  readonly runId: string;
  readonly address: RunAddress | null;
  readonly record: RunRecord | null;
  /** Why the record could not be read, when it could not. */
  readonly unread: Error | null;
}

/**
 * By id, or by a beginning that only one run has; the `run_` in front may be left out. Null: there is no such run.
 * Rejects with StoreUnreadable if the run is not found here and the store cannot be read.
 */
export async function resolveRun(localState: LocalState, wanted: string): Promise<FoundRun | null> {
  const prefix = toRunIdPrefix(wanted);
  const directories = wanted === "" ? [] : await findDirectories(localState, prefix);
  const here = directories.find(({ runId }) => runId === prefix) !== undefined;
  const { records, unread } =
    wanted === "" ? { records: [], unread: null } : await findRecords(localState, prefix, here);
  const ids = new Set([...directories, ...records].map((each) => each.runId));
  const runId = pickRunId(wanted, [...ids]);
  if (runId === null && unread !== null) throw new StoreUnreadable(prefix, unread);
  if (runId === null) return null;
  const record = records.find((each) => each.runId === runId) ?? null;
  const address = directories.find((each) => each.runId === runId) ?? null;
  return { runId, address, record, unread };
}

async function findDirectories({ host }: LocalState, prefix: string): Promise<RunAddress[]> {
  const found: RunAddress[] = [];
  for (const { instanceId } of await host.listInstances())
    // What cannot be read (another user's) is no reason not to stop the others.
    for (const runId of await host.listRunIds(instanceId).catch(() => []))
      if (runId.startsWith(prefix)) found.push({ instanceId, runId });
  return found;
}

/** A store that cannot be read is no reason not to stop a run. */
async function findRecords(
  { directory }: LocalState,
  prefix: string,
  here: boolean,
): Promise<{ readonly records: readonly RunRecord[]; readonly unread: Error | null }> {
  const reading = (async () => {
    await using store = await openStoreForReading(directory.storePath);
    return { records: (await store?.findRuns(prefix, RUN_CANDIDATES)) ?? [], unread: null };
  })().catch((error: unknown) => ({
    records: [],
    unread: error instanceof Error ? error : new Error(String(error)),
  }));
  if (!here || !(await isStoreShared())) return reading;
  // The run's directory is enough to stop it, so this does not wait for a server that does not answer.
  const late = setTimeout(defaults.localListMs, null, { ref: false });
  const read = await Promise.race([reading, late]);
  return read ?? { records: [], unread: new StoreAway(directory.home, "the store does not answer") };
}

/** The same, for a command that cannot do without it. */
export async function requireRun(localState: LocalState | null, wanted: string): Promise<FoundRun> {
  const found = localState === null ? null : await resolveRun(localState, wanted);
  if (found === null) throw new RunNotFound(wanted);
  return found;
}
