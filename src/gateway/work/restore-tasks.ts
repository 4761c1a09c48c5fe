import { defaults } from "../../defaults.js";
import { noteNotRestored, type NotRestored } from "../../store/ledger/not-restored.js";
import type { TaskLedger, ToldTask } from "../../store/ledger/task-ledger.js";
import type { NewRunEvent } from "../../store/run-event.js";
import type { SessionRow } from "../../store/session-record.js";
import type { Store } from "../../store/store.js";
import { isEnded, outboxRank, type OutboxEntry, type TaskRecord } from "../../store/task-record.js";
import type { Problem } from "../../supervisor/api.js";

/** Tasks compared in one query. */
const PAGE = 100;

const WHY = "the store had lost this record, and it was put back";

export interface RestoreParts {
  /** The store itself, without the wrapper that records writes in the ledger. */
  readonly store: Store;
  readonly ledger: TaskLedger;
  /** Where the ledger is. */
  readonly directory: string;
  readonly instanceId: string;
  readonly problem: (problem: Problem) => void;
}

/**
 * Puts tasks, messages and sessions back into a shared store that was restored from an older backup or lost its newest
 * writes in a fail-over. Each record that cannot be put back has an event, and is kept for `tasks audit` and `doctor`.
 */
export class TaskRestorer {
  readonly #parts: RestoreParts;
  /** The store's era when everything was last compared; null: this process has not compared yet. */
  #comparedEra: number | null = null;
  /** When the first comparison of this era began. */
  #comparingSince = 0;
  #comparingEra: number | null = null;
  /** When the changes of other gateways were last recorded. */
  #learnedAt = Date.now();

  constructor(parts: RestoreParts) {
    this.#parts = parts;
  }

  /** Returns how many tasks and sessions were put back. Compares only if the store may have lost records. */
  async look(): Promise<number> {
    const { store, ledger } = this.#parts;
    const { eras } = store;
    if (eras === this.#comparedEra && !(await this.#hasForgotten())) {
      await this.#learn(eras);
      return 0;
    }
    if (eras !== this.#comparingEra) [this.#comparingEra, this.#comparingSince] = [eras, Date.now()];
    ledger.prune();
    const round = new Round(this.#parts);
    // Tasks refer to sessions.
    for (const session of ledger.sessions()) await round.session(session);
    const taskIds = ledger.taskIds();
    for (let at = 0; at < taskIds.length; at += PAGE) await round.tasks(taskIds.slice(at, at + PAGE));
    const restored = await round.end();
    // Messages of a task that its gateway has yet to put back are told in a later round.
    if (!round.isEarly || Date.now() - this.#comparingSince >= defaults.outboxDoubtMs)
      this.#comparedEra = eras;
    return restored;
  }

  /**
   * Other gateways end tasks of this gateway, deliver its messages, and remove both when they are old. The ledger records
   * that, so that nothing is put back or sent that was over. `eras`: the store's era at the start of the round.
   */
  async #learn(eras: number): Promise<void> {
    if (Date.now() - this.#learnedAt < defaults.taskSweepMs) return;
    this.#learnedAt = Date.now();
    this.#parts.ledger.prune();
    const taskIds = this.#parts.ledger.unfinished();
    for (let at = 0; at < taskIds.length; at += PAGE)
      await learnPage(this.#parts, taskIds.slice(at, at + PAGE), eras);
  }

  /** One query that detects tables that were restored while this gateway runs. */
  async #hasForgotten(): Promise<boolean> {
    const { store, ledger } = this.#parts;
    const told = ledger.newest === null ? null : (ledger.get(ledger.newest)?.task ?? null);
    return told !== null && isBehind(told, await store.getTask(told.taskId));
  }
}

async function learnPage(
  { store, ledger }: RestoreParts,
  taskIds: readonly string[],
  eras: number,
): Promise<void> {
  const before = new Map(taskIds.map((taskId) => [taskId, ledger.get(taskId)]));
  const tasks = new Map(
    (await store.listTasks({ taskIds, limit: taskIds.length })).map((task) => [task.taskId, task]),
  );
  const messages = await store.listOutbox({ taskIds });
  for (const taskId of taskIds) {
    const known = tasks.get(taskId);
    const version = ledger.get(taskId)?.task?.version ?? Infinity;
    const events = known !== undefined && known.version > version ? await store.listTaskEvents(taskId) : [];
    const told = ledger.get(taskId);
    // Written here meanwhile, or by a server that was replaced: the next round knows more.
    if (store.eras !== eras) return;
    if (told === null) continue;
    if (known === undefined) {
      await ledger.forget([taskId]);
      continue;
    }
    const theirs = messages.filter((entry) => entry.taskId === taskId);
    const isNewer = told.task !== null && known.version > told.task.version;
    const entries = theirs.filter((entry) => {
      const mine = told.entries.find(({ key }) => key === entry.key);
      return mine === undefined ? isNewer : outboxRank(entry.status) > outboxRank(mine.status);
    });
    const gone = (before.get(taskId)?.entries ?? []).filter(
      ({ key }) => !theirs.some((entry) => entry.key === key),
    );
    if (!isNewer && entries.length === 0 && gone.length === 0) continue;
    const last = told.events.at(-1)?.seq ?? 0;
    const step = isNewer
      ? { task: known, events: events.filter(({ seq }) => seq > last && seq <= known.seq) }
      : {};
    await ledger.note({ taskId, ...step, entries, dropped: gone.map(({ key }) => key) }, false);
  }
}

class Round {
  readonly #parts: RestoreParts;
  readonly #events: NewRunEvent[] = [];
  readonly #notRestored: NotRestored[] = [];
  #restored = 0;
  /** Something is known of a task of another gateway, and the store does not have the task. */
  isEarly = false;

  constructor(parts: RestoreParts) {
    this.#parts = parts;
  }

  async session(session: SessionRow): Promise<void> {
    const { store, ledger, instanceId } = this.#parts;
    const { id, key, closedAt } = session;
    const known = await store.getSession(id);
    if (known !== null) {
      if (known.closedAt !== null && closedAt === null) await ledger.noteSession(known);
      // A session that was closed since the backup must not be open again, and its token must not be valid.
      if (known.closedAt === null && closedAt !== null)
        await store.closeSession(id, `gateway:${instanceId}`, closedAt);
      return;
    }
    if (closedAt !== null) return;
    if (await store.restoreSession(session)) {
      this.#note("", `session ${key} (${id})`);
      this.#refuse(
        "",
        `the tokens of session ${key} (${id}) are not put back: issue a new one (holdfast sessions rotate-token)`,
      );
    } else this.#refuse("", `session ${key} (${id}) is not put back: another open session has its key`);
  }

  async tasks(taskIds: readonly string[]): Promise<void> {
    const { store, ledger } = this.#parts;
    const tasks = new Map(
      (await store.listTasks({ taskIds, limit: taskIds.length })).map((task) => [task.taskId, task]),
    );
    const messages = new Map((await store.listOutbox({ taskIds })).map((entry) => [entry.key, entry]));
    for (const taskId of taskIds) {
      const told = ledger.get(taskId);
      const known = tasks.get(taskId) ?? null;
      if (told === null) continue;
      if (told.task === null && known === null) {
        this.isEarly = true;
        continue;
      }
      const behind = told.task !== null && isBehind(told.task, known);
      if (behind || told.entries.some((entry) => isForgotten(entry, messages.get(entry.key), known)))
        await this.#task(taskId, told);
    }
  }

  /** Reports to the operator and records what was done. */
  async end(): Promise<number> {
    const { store, directory, problem } = this.#parts;
    if (this.#events.length > 0) await store.appendEvents(this.#events);
    await noteNotRestored(directory, this.#notRestored).catch((cause: unknown) =>
      problem({
        runId: null,
        message: "the list of records that could not be put back could not be written",
        cause,
      }),
    );
    return this.#restored;
  }

  async #task(taskId: string, told: ToldTask): Promise<void> {
    const { store, instanceId } = this.#parts;
    const event = { type: "restored", at: Date.now(), data: { why: WHY, by: instanceId } } as const;
    const times = { leaseMs: defaults.deliveryLeaseMs, waitMs: defaults.outboxDoubtMs };
    const done = await store.restoreTask({ taskId, ...told, ...times }, event).catch((cause: unknown) => {
      // If the store is unreachable, the next round tries again; any other refusal is final.
      if (isAway(cause)) throw cause;
      return cause instanceof Error ? cause : new Error(String(cause));
    });
    if (done instanceof Error) return this.#refuse(taskId, `task ${taskId} is not put back: ${done.message}`);
    if (done === "key-taken")
      return this.#refuse(taskId, `task ${taskId} is not put back: another task has its key now`);
    if (done !== "restored") return;
    this.#note(told.task?.runId ?? "", `task ${taskId}`);
    if (told.task !== null) await this.#lacks(told.task);
  }

  /** Reports records that a restored task refers to and that the store no longer has. */
  async #lacks(task: TaskRecord): Promise<void> {
    const { store } = this.#parts;
    const { taskId, turnId, status, targets } = task;
    if (turnId !== null && !isEnded(status) && (await store.getAcpTurn(turnId)) === null)
      this.#refuse(
        taskId,
        `task ${taskId} is put back, but its agent's turn ${turnId} is not: it ends as lost`,
      );
    for (const target of targets)
      if (target.kind === "session" && (await store.getSession(target.sessionId)) === null)
        this.#refuse(
          taskId,
          `task ${taskId} is put back, but session ${target.sessionId}, which is to be notified of it, is not`,
        );
  }

  #note(runId: string, what: string): void {
    this.#restored += 1;
    this.#tell(runId, "restore", `${what}: ${WHY}`);
  }

  #refuse(taskId: string, detail: string): void {
    this.#notRestored.push({ taskId, detail, at: Date.now() });
    this.#tell("", "leave", detail);
  }

  #tell(runId: string, action: "restore" | "leave", why: string): void {
    const { instanceId, problem } = this.#parts;
    this.#events.push({
      ...{ runId, at: Date.now(), rootPid: null, descendants: 0 },
      type: "reconcile",
      data: { row: "forgotten", action, why, by: instanceId, from: instanceId, epoch: 0 },
    });
    problem({ runId: runId === "" ? null : runId, message: why, cause: null });
  }
}

/** Whether the store has lost a part of a task. The end of a task is never undone. */
function isBehind(told: TaskRecord, known: TaskRecord | null): boolean {
  return (
    known === null || (known.endedAt === null && (told.endedAt !== null || known.version < told.version))
  );
}

/** A message about a state change that the store does not have was replaced, or is too old to be kept. */
function isForgotten(told: OutboxEntry, known: OutboxEntry | undefined, task: TaskRecord | null): boolean {
  if (known === undefined) return told.notification.kind === "terminal" && task !== null;
  return outboxRank(known.status) < outboxRank(told.status) || known.attempts < told.attempts;
}

function isAway(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "STORE_AWAY";
}
