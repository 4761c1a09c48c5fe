import type { DirectoryScope } from "../../anchor/host.js";
import { ACP_BACKEND } from "../../acp/agent-process.js";
import { TERMINAL_BACKEND } from "../../acp/client/terminals.js";
import { BadInput, NotFound, RunNotFound, StoreUnreadable } from "../../errors.js";
import { openStoreForReading } from "../../store/open.js";
import { isEnded } from "../../store/task-record.js";
import { pickSession, type Session } from "../acp/pick-session.js";
import type { Look } from "../gateway/look.js";
import { mustFindRun, type FoundRun } from "../operator/find-run.js";
import type { Observatory } from "../operator/observer.js";
import { runPrefix } from "../runs/pick-run.js";
import type { Task } from "../tasks/status.js";
import { selectRuns, type SelectedRun } from "./select-runs.js";

/** A task and the runs that do its work. */
export interface FoundTask {
  /** Null: the store does not say; the run directories do. */
  readonly task: Task | null;
  readonly runs: readonly FoundRun[];
}

/** By what `tasks` takes for its name; without a store that can be read, by what the run directories say. */
export async function findTask(observatory: Observatory | null, wanted: string): Promise<FoundTask> {
  if (observatory === null) throw new NotFound(`task ${wanted}`);
  const stored = await fromStore(observatory, (look) => taskOnRecord(observatory, look, wanted));
  if (stored.found !== null) return stored.found;
  const { runs } = await selectRuns(
    observatory,
    ({ taskIds, ...scope }, runId) =>
      taskIds.some((taskId) => isNamed(taskId, "task_", wanted)) ||
      runId === runPrefix(wanted) ||
      isSession(scope, wanted),
    stored.unread,
  );
  if (runs.length === 0)
    throw stored.unread === null
      ? new NotFound(`task ${wanted}`)
      : new StoreUnreadable(`task ${wanted}`, stored.unread);
  const going = openOnes(runs);
  const taskIds = new Set(going.flatMap(({ scope }) => scope.taskIds));
  if (taskIds.size > 1 && !taskIds.has(wanted) && going.length > 1)
    throw new BadInput(
      "task",
      `${JSON.stringify(wanted)} is the name of several tasks: ${[...taskIds].join(", ")}`,
    );
  return { task: null, runs: going };
}

async function taskOnRecord(observatory: Observatory, look: Look, wanted: string): Promise<FoundTask> {
  const { task } = await look.client.getTask({ params: { id: wanted } });
  const { runId, turnId, childSessionId, status } = task;
  // A task that has ended may have a run that goes on: a gateway may have been kept from ending it.
  if (turnId === null) {
    const run = runId === null ? null : await mustFindRun(observatory, runId);
    return { task, runs: run === null || (isEnded(status) && run.record?.state === "exited") ? [] : [run] };
  }
  await using store = await openStoreForReading(observatory.directory.storePath);
  const session = childSessionId === null ? null : await store?.getAcpSession(childSessionId);
  // A session that is one run ends with it; any other stays when its turn is over.
  if (isEnded(status) && session?.mode !== "run") return { task, runs: [] };
  const turn = await store?.getAcpTurn(turnId);
  // Ending the agent would end the turn that runs now, which is a different one.
  if (turn?.state === "queued")
    throw new BadInput(
      "task",
      `task ${task.taskId} waits for its turn, and only a gateway can take it out of the queue; nothing was stopped`,
    );
  return { task, runs: await runsOfSession(observatory, childSessionId ?? "") };
}

/** An ACP session and the runs of its agent and of its agent's terminals. */
export interface FoundSession {
  /** Null: the store does not say; the run directories do. */
  readonly session: Session | null;
  readonly sessionId: string;
  readonly key: string;
  readonly runs: readonly FoundRun[];
}

export async function findSession(observatory: Observatory | null, wanted: string): Promise<FoundSession> {
  const what = `ACP session ${wanted.slice(0, 200)}`;
  if (observatory === null || wanted === "") throw new NotFound(what);
  const stored = await fromStore(observatory, async ({ client }) => {
    const session = await pickSession(client, wanted);
    const { sessionId, key } = session;
    return { session, sessionId, key, runs: await runsOfSession(observatory, sessionId) };
  });
  if (stored.found !== null) return stored.found;
  const { runs } = await selectRuns(observatory, (scope) => isSession(scope, wanted), stored.unread);
  const going = openOnes(runs);
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

/** The agent's own run and its terminals; what the agent has started through Holdfast goes on, as with a gateway. */
async function runsOfSession(observatory: Observatory, sessionId: string): Promise<readonly SelectedRun[]> {
  return (await selectRuns(observatory, (scope) => isAgent(scope) && scope.sessionId === sessionId)).runs;
}

/** The runs that have not ended; when all have ended, all of them, so that the answer can say so. */
function openOnes(runs: readonly SelectedRun[]): readonly SelectedRun[] {
  const open = runs.filter(({ ended }) => !ended);
  return open.length > 0 ? open : runs;
}

function isAgent({ backendId }: Pick<DirectoryScope, "backendId">): boolean {
  return backendId === ACP_BACKEND || backendId === TERMINAL_BACKEND;
}

function isSession(
  scope: Pick<DirectoryScope, "backendId" | "sessionId" | "sessionKey">,
  wanted: string,
): boolean {
  const { sessionId, sessionKey } = scope;
  if (!isAgent(scope) || sessionId === null) return false;
  return (
    isNamed(sessionId, "ses_", wanted) || sessionKey === wanted || sessionKey?.endsWith(`/${wanted}`) === true
  );
}

/** Matches a whole id, or a prefix that is longer than the type prefix. */
function isNamed(id: string, prefix: string, wanted: string): boolean {
  return (
    id === wanted || (wanted.length > prefix.length && id.startsWith(wanted)) || id === `${prefix}${wanted}`
  );
}

/** What the store says; `unread`: why it cannot be read, null when it knows of nothing by that name. */
async function fromStore<Found>(
  { directory }: Observatory,
  read: (look: Look) => Promise<Found>,
): Promise<
  { readonly found: Found; readonly unread: null } | { readonly found: null; readonly unread: Error | null }
> {
  const { readLocally } = await import("../gateway/read-locally.js");
  try {
    await using look = await readLocally(directory.home);
    return { found: await read(look), unread: null };
  } catch (error) {
    if (error instanceof BadInput) throw error;
    if (error instanceof NotFound || error instanceof RunNotFound) return { found: null, unread: null };
    return { found: null, unread: error instanceof Error ? error : new Error(String(error)) };
  }
}
