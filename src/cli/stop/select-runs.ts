import type { DirectoryScope, RunAddress } from "../../anchor/host.js";
import { openStoreForReading } from "../../store/open.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { FoundRun } from "../client/resolve-run.js";
import type { LocalState } from "../client/local-state.js";

/** Session, agent, labels and tasks of a run, from its record or its directory; a record has no tasks. */
export interface SelectedRun extends FoundRun {
  readonly scope: DirectoryScope;
  /** Null: it has no directory here. */
  readonly ownerAlive: boolean | null;
  /** Its directory has an exit file; its record is open or cannot be read. */
  readonly ended: boolean;
}

export interface Selection {
  readonly runs: readonly SelectedRun[];
  /** Why the store could not be read; null: it could, or there is none. */
  readonly unread: Error | null;
}

/**
 * Open runs that match, including those known only from their directories. The directories are enough if the store
 * cannot be read or is gone.
 */
export async function selectRuns(
  localState: LocalState,
  matches: (scope: DirectoryScope, runId: string) => boolean,
  /**
   * Why the store cannot be read, if that is known: then it is not tried again, which may take as long as a lock
   * timeout.
   */
  unreadBefore: Error | null = null,
): Promise<Selection> {
  const directories = await openDirectories(localState);
  const { records, unread, over } =
    unreadBefore === null
      ? await openRecords(localState, directories)
      : { records: [], unread: unreadBefore, over: new Set<string>() };
  const known = new Map(records.map((record) => [record.runId, record]));
  const found = directories.flatMap(({ address, scope, ownerAlive, ended }): SelectedRun[] => {
    const { runId } = address;
    const record = known.get(runId) ?? null;
    const whose = record === null ? scope : { ...scopeOf(record), taskIds: scope?.taskIds ?? [] };
    if (whose === null || over.has(runId)) return [];
    return [{ runId, address, record, unread, scope: whose, ownerAlive, ended }];
  });
  const here = new Set(directories.map(({ address }) => address.runId));
  const others = records
    .filter(({ runId }) => !here.has(runId))
    .map((record): SelectedRun => {
      const scope = { ...scopeOf(record), taskIds: [] };
      return { runId: record.runId, address: null, record, unread, scope, ownerAlive: null, ended: false };
    });
  return { runs: [...found, ...others].filter(({ scope, runId }) => matches(scope, runId)), unread };
}

/** Open runs that an instance owns by their records; a run without a record belongs to the instance that has its directory. */
export async function runsOfInstance(
  localState: LocalState,
  instanceId: string,
): Promise<readonly FoundRun[]> {
  const directories = await openDirectories(localState);
  const { records, unread, over } = await openRecords(localState, directories);
  const known = new Map(records.map((record) => [record.runId, record]));
  const here = new Set(directories.map(({ address }) => address.runId));
  const found = directories
    .filter(({ address: { runId }, ended }) => !ended && !over.has(runId))
    .map(({ address }): FoundRun => {
      const { runId } = address;
      return { runId, address, record: known.get(runId) ?? null, unread };
    });
  const others = records
    .filter(({ runId }) => !here.has(runId))
    .map((record): FoundRun => ({ runId: record.runId, address: null, record, unread }));
  return [...found, ...others].filter(
    ({ record, address }) => (record?.ownerInstanceId ?? address?.instanceId) === instanceId,
  );
}

function scopeOf(record: RunRecord): Omit<DirectoryScope, "taskIds"> {
  const { sessionKey, sessionId, backendId, agentId, labels, kind, command } = record;
  return { sessionKey, sessionId, backendId, agentId, labels, kind, command };
}

/** `over`: runs whose records have ended and whose directories are kept for their output. */
async function openRecords(
  { directory }: LocalState,
  directories: readonly OpenDirectory[],
): Promise<{
  readonly records: readonly RunRecord[];
  readonly unread: Error | null;
  readonly over: ReadonlySet<string>;
}> {
  const over = new Set<string>();
  try {
    await using store = await openStoreForReading(directory.storePath);
    const records = (await store?.listRuns({ states: OPEN_RUN_STATES })) ?? [];
    for (const { address } of directories)
      if ((await store?.getRun(address.runId))?.state === "exited") over.add(address.runId);
    return { records, unread: null, over };
  } catch (error) {
    return { records: [], unread: error instanceof Error ? error : new Error(String(error)), over };
  }
}

interface OpenDirectory {
  readonly address: RunAddress;
  readonly scope: DirectoryScope | null;
  readonly ownerAlive: boolean;
  /** It has an exit file: its record is not completed yet, or the directory is kept for its output. */
  readonly ended: boolean;
}

async function openDirectories({ host }: LocalState): Promise<readonly OpenDirectory[]> {
  const found: OpenDirectory[] = [];
  for (const { instanceId, alive } of await host.listInstances())
    // An unreadable instance (of another user) must not prevent stopping the others.
    for (const runId of await host.listRunIds(instanceId).catch(() => [])) {
      const address = { instanceId, runId };
      const scope = await host.readScope(address).catch(() => null);
      const { exit, swept } = await host.readRunFiles(address).catch(() => ({ exit: null, swept: null }));
      found.push({ address, scope, ownerAlive: alive, ended: exit !== null || swept !== null });
    }
  return found;
}
