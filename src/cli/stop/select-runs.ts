import { ACP_BACKEND } from "../../model/enums.js";
import { TERMINAL_BACKEND } from "../../acp/client/terminals.js";
import type { DirectoryScope, RunAddress } from "../../anchor/host-interface.js";
import type { ResponseOf } from "../../api/contract.js";
import { BadInput, NotFound, RunNotFound, StoreUnreadable } from "../../errors.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { isTaskEnded } from "../../model/task.js";
import { openStoreForReading } from "../../store/open.js";
import type { ReadClient } from "../client/connect.js";
import { type AcpSessionSummary, resolveAcpSession } from "../client/resolve-acp-session.js";
import { type FoundRun, requireRun, toRunIdPrefix } from "../client/resolve-run.js";
import type { LocalState } from "../../queries/local-state-directory.js";

/** Session, agent, labels and tasks of a run, from its record or its directory; a record has no tasks. */
export interface SelectedRun extends FoundRun {
  readonly scope: DirectoryScope;
  /** Null: it has no directory here. */
  readonly ownerAlive: boolean | null;
  /** Its directory has an exit file; its record is open or cannot be read. */
  readonly ended: boolean;
}

/** Open runs that match, including those known only from their directories. */
export async function selectRuns(
  localState: LocalState,
  matches: (scope: DirectoryScope, runId: string) => boolean,
  unreadBefore: Error | null = null,
): Promise<readonly SelectedRun[]> {
  return (await listOpenRuns(localState, unreadBefore)).flatMap(({ scope, ...run }) =>
    scope === null || !matches(scope, run.runId) ? [] : [{ ...run, scope }],
  );
}

/** Open runs that an instance owns by their records; a run without a record belongs to the instance that has its directory. */
export async function runsOfInstance(
  localState: LocalState,
  instanceId: string,
): Promise<readonly FoundRun[]> {
  return (await listOpenRuns(localState, null)).filter(
    ({ record, address, ended }) => !ended && (record?.ownerInstanceId ?? address?.instanceId) === instanceId,
  );
}

/**
 * From the run directories and the store. The directories are enough if the store cannot be read or is gone.
 * `unreadBefore`: why the store cannot be read, if that is known: it is not tried again, which may take as long as a
 * lock timeout.
 */
async function listOpenRuns(
  localState: LocalState,
  unreadBefore: Error | null,
): Promise<readonly (Omit<SelectedRun, "scope"> & { readonly scope: DirectoryScope | null })[]> {
  const directories = await openDirectories(localState);
  const { records, unread, over } =
    unreadBefore === null
      ? await openRecords(localState, directories)
      : { records: [], unread: unreadBefore, over: new Set<string>() };
  const known = new Map(records.map((record) => [record.runId, record]));
  const here = new Set(directories.map(({ address }) => address.runId));
  return [
    ...directories
      .filter(({ address }) => !over.has(address.runId))
      .map(({ address, scope, ...rest }) => {
        const record = known.get(address.runId) ?? null;
        const whose = record === null ? scope : { ...scopeOf(record), taskIds: scope?.taskIds ?? [] };
        return { runId: address.runId, address, record, unread, scope: whose, ...rest };
      }),
    ...records
      .filter(({ runId }) => !here.has(runId))
      .map((record) => {
        const scope = { ...scopeOf(record), taskIds: [] };
        return { runId: record.runId, address: null, record, unread, scope, ownerAlive: null, ended: false };
      }),
  ];
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

/** A task and the runs that do its work. */
interface FoundTask {
  /** Null: only the run directories know the task. */
  readonly task: ResponseOf<"getTask">["task"] | null;
  readonly runs: readonly FoundRun[];
}

/** Finds a task by the names that `tasks` accepts; without a readable store, from the run directories. */
export async function findTaskRuns(localState: LocalState | null, wanted: string): Promise<FoundTask> {
  if (localState === null) throw NotFound.task(wanted);
  const stored = await readOffline(localState, (reader) => taskOnRecord(localState, reader, wanted));
  if (stored.found !== null) return stored.found;
  const runs = await selectRuns(
    localState,
    ({ taskIds, ...scope }, runId) =>
      taskIds.some((taskId) => matchesId(taskId, "task_", wanted)) ||
      runId === toRunIdPrefix(wanted) ||
      isRunOfSession(scope, wanted),
    stored.unread,
  );
  if (runs.length === 0)
    throw stored.unread === null
      ? NotFound.task(wanted)
      : new StoreUnreadable(`task ${wanted}`, stored.unread);
  const going = openRuns(runs);
  const taskIds = new Set(going.flatMap(({ scope }) => scope.taskIds));
  if (taskIds.size > 1 && !taskIds.has(wanted) && going.length > 1)
    throw new BadInput(
      "task",
      `${JSON.stringify(wanted)} is the name of several tasks: ${[...taskIds].join(", ")}`,
    );
  return { task: null, runs: going };
}

async function taskOnRecord(localState: LocalState, reader: ReadClient, wanted: string): Promise<FoundTask> {
  const { task } = await reader.client.getTask({ params: { id: wanted } });
  const { runId, turnId, childSessionId, status } = task;
  // An ended task may have an open run, if a gateway could not end it.
  if (turnId === null) {
    const run = runId === null ? null : await requireRun(localState, runId);
    return {
      task,
      runs: run === null || (isTaskEnded(status) && run.record?.state === "exited") ? [] : [run],
    };
  }
  await using store = await openStoreForReading(localState.directory.storePath);
  const session = childSessionId === null ? null : await store?.getAcpSession(childSessionId);
  // A session of mode `run` ends with its run; others stay after their turn.
  if (isTaskEnded(status) && session?.mode !== "run") return { task, runs: [] };
  const turn = await store?.getAcpTurn(turnId);
  // Ending the agent would end the running turn, which is another one.
  if (turn?.state === "queued")
    throw new BadInput(
      "task",
      `task ${task.taskId} waits for its turn, and only a gateway can take it out of the queue; nothing was stopped`,
    );
  return { task, runs: await runsOfSession(localState, childSessionId ?? "") };
}

/** An ACP session and the runs of its agent and of its agent's terminals. */
export interface FoundSession {
  /** Null: only the run directories know the session. */
  readonly session: AcpSessionSummary | null;
  readonly sessionId: string;
  readonly key: string;
  readonly runs: readonly FoundRun[];
}

export async function findSessionRuns(localState: LocalState | null, wanted: string): Promise<FoundSession> {
  const what = `ACP session ${wanted.slice(0, 200)}`;
  if (localState === null || wanted === "") throw new NotFound(what);
  const stored = await readOffline(localState, async ({ client }) => {
    const session = await resolveAcpSession(client, wanted);
    const { sessionId, key } = session;
    return { session, sessionId, key, runs: await runsOfSession(localState, sessionId) };
  });
  if (stored.found !== null) return stored.found;
  const runs = await selectRuns(localState, (scope) => isRunOfSession(scope, wanted), stored.unread);
  const going = openRuns(runs);
  const ids = new Set(going.map(({ scope }) => scope.sessionId ?? ""));
  const [sessionId, ...others] = ids;
  if (sessionId === undefined)
    throw stored.unread === null ? new NotFound(what) : new StoreUnreadable(what, stored.unread);
  if (others.length > 0)
    throw new BadInput(
      "session",
      `${JSON.stringify(wanted)} is the name of several ACP sessions: ${[...ids].join(", ")}`,
    );
  return { session: null, sessionId, key: going[0]?.scope.sessionKey ?? sessionId, runs: going };
}

/** The run of the agent and its terminals. Runs that the agent started through Holdfast continue, as with a gateway. */
async function runsOfSession(localState: LocalState, sessionId: string): Promise<readonly SelectedRun[]> {
  return selectRuns(localState, (scope) => isAgentRun(scope) && scope.sessionId === sessionId);
}

/** The open runs; if all have ended, all of them, so that this can be reported. */
function openRuns(runs: readonly SelectedRun[]): readonly SelectedRun[] {
  const open = runs.filter(({ ended }) => !ended);
  return open.length > 0 ? open : runs;
}

function isAgentRun({ backendId }: Pick<DirectoryScope, "backendId">): boolean {
  return backendId === ACP_BACKEND || backendId === TERMINAL_BACKEND;
}

function isRunOfSession(
  scope: Pick<DirectoryScope, "backendId" | "sessionId" | "sessionKey">,
  wanted: string,
): boolean {
  const { sessionId, sessionKey } = scope;
  if (!isAgentRun(scope) || sessionId === null) return false;
  return (
    matchesId(sessionId, "ses_", wanted) ||
    sessionKey === wanted ||
    sessionKey?.endsWith(`/${wanted}`) === true
  );
}

/** Matches a whole id, or a prefix that is longer than the type prefix. */
function matchesId(id: string, prefix: string, wanted: string): boolean {
  return (
    id === wanted || (wanted.length > prefix.length && id.startsWith(wanted)) || id === `${prefix}${wanted}`
  );
}

/** From the store; `unread`: why it cannot be read, null if it has no such record. */
async function readOffline<Found>(
  { directory }: LocalState,
  read: (reader: ReadClient) => Promise<Found>,
): Promise<
  { readonly found: Found; readonly unread: null } | { readonly found: null; readonly unread: Error | null }
> {
  const { openOfflineReader } = await import("../client/offline-reader.js");
  try {
    await using reader = await openOfflineReader(directory.home);
    return { found: await read(reader), unread: null };
  } catch (error) {
    if (error instanceof BadInput) throw error;
    if (error instanceof NotFound || error instanceof RunNotFound) return { found: null, unread: null };
    return { found: null, unread: error instanceof Error ? error : new Error(String(error)) };
  }
}
