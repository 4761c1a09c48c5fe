import { defaults } from "../../defaults.js";
import { StoreAway } from "../../errors.js";
import {
  type CopiedTask,
  recordUnrestored,
  type TaskCopy,
  type UnrestoredRecord,
} from "../../store/local-copy/task-copy.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { SessionRecord } from "../../model/session.js";
import type { Store } from "../../store/store.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import { outboxStatusRank, type OutboxEntry } from "../../model/outbox.js";
import type { Problem } from "../../supervisor/api.js";

/** Tasks compared in one query. */
const PAGE_SIZE = 100;

const RESTORED_REASON = "the store had lost this record, and it was restored";

interface TaskRestorerDeps {
  /** The store itself, without the wrapper that records writes in the local copy. */
  readonly store: Store;
  readonly localCopy: TaskCopy;
  /** The directory of the local copy. */
  readonly directory: string;
  readonly instanceId: string;
  readonly onProblem: (problem: Problem) => void;
}

/**
 * Restores tasks, messages and sessions in a shared store that was restored from an older backup or lost its newest
 * writes in a fail-over. Each record that cannot be restored has an event, and is listed by `tasks audit` and `doctor`.
 */
export class TaskRestorer {
  readonly #deps: TaskRestorerDeps;
  /** The generation of the store at the last complete comparison. Null: this process has not compared yet. */
  #comparedGeneration: number | null = null;
  /** When the first comparison of this generation began. */
  #comparingSince = 0;
  #comparingGeneration: number | null = null;
  /** When the changes of other gateways were last recorded. */
  #remoteChangesAt = Date.now();

  constructor(deps: TaskRestorerDeps) {
    this.#deps = deps;
  }

  /** Returns the number of restored tasks and sessions. Compares only if the store may have lost records. */
  async restoreLost(): Promise<number> {
    const { store, localCopy } = this.#deps;
    const { generation } = store;
    if (generation === this.#comparedGeneration && !(await this.#storeLostRecords())) {
      await this.#recordRemoteChanges(generation);
      return 0;
    }
    if (generation !== this.#comparingGeneration)
      [this.#comparingGeneration, this.#comparingSince] = [generation, Date.now()];
    localCopy.prune();
    const pass = new RestorePass(this.#deps);
    // Tasks refer to sessions.
    for (const session of localCopy.sessions()) await pass.restoreSession(session);
    const taskIds = localCopy.taskIds();
    for (let at = 0; at < taskIds.length; at += PAGE_SIZE)
      await pass.restoreTasks(taskIds.slice(at, at + PAGE_SIZE));
    const restored = await pass.finish();
    // Messages of a task that its own gateway has not restored yet wait for a later pass.
    if (!pass.isEarly || Date.now() - this.#comparingSince >= defaults.outboxDoubtMs)
      this.#comparedGeneration = generation;
    return restored;
  }

  /**
   * Other gateways end tasks of this gateway, deliver its messages, and remove both when they are old. The local copy
   * records that, so that nothing that is over is restored or sent. `generation`: of the store at the start of the pass.
   */
  async #recordRemoteChanges(generation: number): Promise<void> {
    if (Date.now() - this.#remoteChangesAt < defaults.taskSweepMs) return;
    this.#remoteChangesAt = Date.now();
    this.#deps.localCopy.prune();
    const taskIds = this.#deps.localCopy.unfinishedTaskIds();
    for (let at = 0; at < taskIds.length; at += PAGE_SIZE)
      await recordRemoteChangesOf(this.#deps, taskIds.slice(at, at + PAGE_SIZE), generation);
  }

  /** One query that detects tables that were restored while this gateway runs. */
  async #storeLostRecords(): Promise<boolean> {
    const { store, localCopy } = this.#deps;
    const copy = localCopy.newest === null ? null : (localCopy.get(localCopy.newest)?.task ?? null);
    return copy !== null && isBehind(copy, await store.getTask(copy.taskId));
  }
}

async function recordRemoteChangesOf(
  { store, localCopy }: TaskRestorerDeps,
  taskIds: readonly string[],
  generation: number,
): Promise<void> {
  const before = new Map(taskIds.map((taskId) => [taskId, localCopy.get(taskId)]));
  const tasks = new Map(
    (await store.listTasks({ taskIds, limit: taskIds.length })).map((task) => [task.taskId, task]),
  );
  const messages = await store.listOutbox({ taskIds });
  for (const taskId of taskIds) {
    const known = tasks.get(taskId);
    const version = localCopy.get(taskId)?.task?.version ?? Infinity;
    const events = known !== undefined && known.version > version ? await store.listTaskEvents(taskId) : [];
    const copy = localCopy.get(taskId);
    // Written here meanwhile, or by a server that was replaced: left to the next pass.
    if (store.generation !== generation) return;
    if (copy === null) continue;
    if (known === undefined) {
      await localCopy.delete([taskId]);
      continue;
    }
    const theirs = messages.filter((entry) => entry.taskId === taskId);
    const isNewer = copy.task !== null && known.version > copy.task.version;
    const entries = theirs.filter((entry) => {
      const mine = copy.entries.find(({ key }) => key === entry.key);
      return mine === undefined ? isNewer : outboxStatusRank(entry.status) > outboxStatusRank(mine.status);
    });
    const gone = (before.get(taskId)?.entries ?? []).filter(
      ({ key }) => !theirs.some((entry) => entry.key === key),
    );
    if (!isNewer && entries.length === 0 && gone.length === 0) continue;
    const last = copy.events.at(-1)?.seq ?? 0;
    const step = isNewer
      ? { task: known, events: events.filter(({ seq }) => seq > last && seq <= known.seq) }
      : {};
    await localCopy.record({ taskId, ...step, entries, dropped: gone.map(({ key }) => key) }, false);
  }
}

class RestorePass {
  readonly #deps: TaskRestorerDeps;
  readonly #events: NewRunEvent[] = [];
  readonly #notRestored: UnrestoredRecord[] = [];
  #restored = 0;
  /** The local copy has messages of a task of another gateway, and the store does not have the task. */
  isEarly = false;

  constructor(deps: TaskRestorerDeps) {
    this.#deps = deps;
  }

  async restoreSession(session: SessionRecord): Promise<void> {
    const { store, localCopy, instanceId } = this.#deps;
    const { id, closedAt, closeReason } = session;
    const name = `session ${session.key} (${id})`;
    const known = await store.getSession(id);
    if (known !== null) {
      if (known.closedAt !== null && closedAt === null) await localCopy.recordSession(known);
      // A session that was closed since the backup must not be open again, and its token must not be valid.
      if (known.closedAt === null && closedAt !== null)
        await store.closeSession(id, session.closedBy ?? `gateway:${instanceId}`, closedAt, closeReason);
      return;
    }
    if (closedAt !== null) return;
    if (await store.restoreSession(session)) {
      this.#recordRestored("", name);
      this.#recordNotRestored(
        "",
        `the tokens of ${name} are not restored: issue a new one (holdfast sessions rotate-token)`,
      );
    } else this.#recordNotRestored("", `${name} is not restored: another open session has its key`);
  }

  async restoreTasks(taskIds: readonly string[]): Promise<void> {
    const { store, localCopy } = this.#deps;
    const tasks = new Map(
      (await store.listTasks({ taskIds, limit: taskIds.length })).map((task) => [task.taskId, task]),
    );
    const messages = new Map((await store.listOutbox({ taskIds })).map((entry) => [entry.key, entry]));
    for (const taskId of taskIds) {
      const copy = localCopy.get(taskId);
      const known = tasks.get(taskId) ?? null;
      if (copy === null) continue;
      if (copy.task === null && known === null) {
        this.isEarly = true;
        continue;
      }
      const behind = copy.task !== null && isBehind(copy.task, known);
      if (behind || copy.entries.some((entry) => isMessageLost(entry, messages.get(entry.key), known)))
        await this.#restoreTask(taskId, copy);
    }
  }

  /** Reports to the operator and records what was done. */
  async finish(): Promise<number> {
    const { store, directory, onProblem } = this.#deps;
    if (this.#events.length > 0) await store.appendEvents(this.#events);
    await recordUnrestored(directory, this.#notRestored).catch((cause: unknown) =>
      onProblem({
        runId: null,
        message: "the list of records that could not be restored could not be written",
        cause,
      }),
    );
    return this.#restored;
  }

  async #restoreTask(taskId: string, copy: CopiedTask): Promise<void> {
    const { store, instanceId } = this.#deps;
    const event = {
      type: "restored",
      at: Date.now(),
      data: { why: RESTORED_REASON, by: instanceId },
    } as const;
    const times = { leaseMs: defaults.deliveryLeaseMs, waitMs: defaults.outboxDoubtMs };
    const done = await store.restoreTask({ taskId, ...copy, ...times }, event).catch((cause: unknown) => {
      // If the store is unreachable, the next pass retries; any other error is final.
      if (cause instanceof StoreAway) throw cause;
      return cause instanceof Error ? cause : new Error(String(cause));
    });
    if (done instanceof Error)
      return this.#recordNotRestored(taskId, `task ${taskId} is not restored: ${done.message}`);
    if (done === "key-taken")
      return this.#recordNotRestored(taskId, `task ${taskId} is not restored: another task has its key now`);
    if (done !== "restored") return;
    this.#recordRestored(copy.task?.runId ?? "", `task ${taskId}`);
    if (copy.task !== null) await this.#reportMissingReferences(copy.task);
  }

  /** Reports records that a restored task refers to and that the store no longer has. */
  async #reportMissingReferences(task: TaskRecord): Promise<void> {
    const { store } = this.#deps;
    const { taskId, turnId, status, targets } = task;
    if (turnId !== null && !isTaskEnded(status) && (await store.getAcpTurn(turnId)) === null)
      this.#recordNotRestored(
        taskId,
        `task ${taskId} is restored, but its agent's turn ${turnId} is not: it ends as lost`,
      );
    for (const target of targets)
      if (target.kind === "session" && (await store.getSession(target.sessionId)) === null)
        this.#recordNotRestored(
          taskId,
          `task ${taskId} is restored, but session ${target.sessionId}, a target of its notifications, is not`,
        );
  }

  #recordRestored(runId: string, what: string): void {
    this.#restored += 1;
    this.#report(runId, "restore", `${what}: ${RESTORED_REASON}`);
  }

  #recordNotRestored(taskId: string, detail: string): void {
    this.#notRestored.push({ taskId, detail, at: Date.now() });
    this.#report("", "leave", detail);
  }

  #report(runId: string, action: "restore" | "leave", why: string): void {
    const { instanceId, onProblem } = this.#deps;
    this.#events.push({
      ...{ runId, at: Date.now(), rootPid: null, descendants: 0 },
      type: "reconcile",
      data: { row: "forgotten", action, why, by: instanceId, from: instanceId, epoch: 0 },
    });
    onProblem({ runId: runId === "" ? null : runId, message: why, cause: null });
  }
}

/** True if the store has lost a part of a task. The end of a task is never undone. */
function isBehind(copy: TaskRecord, known: TaskRecord | null): boolean {
  return (
    known === null || (known.endedAt === null && (copy.endedAt !== null || known.version < copy.version))
  );
}

/** A message about a state change that the store does not have was replaced, or is too old to be kept. */
function isMessageLost(copy: OutboxEntry, known: OutboxEntry | undefined, task: TaskRecord | null): boolean {
  if (known === undefined) return copy.notification.kind === "terminal" && task !== null;
  return outboxStatusRank(known.status) < outboxStatusRank(copy.status) || known.attempts < copy.attempts;
}
