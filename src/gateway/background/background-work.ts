import { setMaxListeners } from "node:events";
import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { StoreAway, SupervisorClosed, TaskRefused } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { RunRecord } from "../../model/run.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { Problem, Run, Supervisor } from "../../supervisor/api.js";
import { type TaskInput, taskKeyOfRun, type ApplyResult, type Tasks } from "../../tasks/tasks.js";
import { type MaintenanceAction, planMaintenance, type WorkStatus } from "../../tasks/plan-maintenance.js";
import { ObservationWindow, sweepTasks } from "../../tasks/maintenance-pass.js";
import type { TaskFinish, TaskInputEvent } from "../../tasks/transition.js";
import { withUnansweredResult } from "../../tasks/wake-limits.js";
import type { TaskEventFollower } from "../monitoring/event-follower.js";
import type { SessionDelivery } from "./session-delivery.js";
import { acknowledgeReadMessages, type ReadReceiptStore } from "./read-receipts.js";
import { ProgressReporter, type ProgressReporterDeps } from "./progress-reporter.js";
import { TypingIndicator, type TypingIndicatorDeps } from "./typing-indicator.js";
import { type WorkStatusDeps, workStatusOf } from "./task-work-status.js";

/**
 * The task of a run whose caller waited at a former gateway. Null: the run needs no task, or is not to continue.
 */
function taskForRecoveredRun(run: RunRecord): TaskInput | null {
  const { runId, sessionId, agentId, backendId, kind, policy, imported, hiddenAt, command } = run;
  const { callerBound, onOrphan } = policy;
  const plain = kind === "task" && backendId === null && imported === null;
  if (!plain || callerBound || onOrphan === "terminate" || hiddenAt !== null) return null;
  return {
    runtime: "exec",
    key: taskKeyOfRun(runId),
    text: command,
    ownerSessionId: sessionId,
    agentId,
    runId,
    targets: sessionId === null ? [] : [{ kind: "session", sessionId }],
  };
}

export interface BackgroundDeps
  extends WorkStatusDeps, ProgressReporterDeps, Pick<TypingIndicatorDeps, "channels"> {
  readonly tasks: Tasks;
  readonly store: WorkStatusDeps["store"] & TaskStore & ReadReceiptStore;
  readonly supervisor: Supervisor;
  readonly acp: WorkStatusDeps["acp"] & ProgressReporterDeps["acp"];
  readonly tail: TaskEventFollower;
  readonly waker: Pick<SessionDelivery, "statusOf">;
  readonly onProblem: (problem: Problem) => void;
}

/** Callbacks of work while it starts. */
export interface StartHooks {
  /** Null: it has no task. */
  readonly taskId: string | null;
  /** The work is running; its start continues. */
  readonly onStarted: () => void;
  /** The work is done by another run than planned. */
  readonly onRunReplaced: (runId: string) => Promise<void>;
  /** The caller no longer waits, so the end needs a notification. */
  readonly onDetached: () => void;
}

interface StartOptions {
  /** Aborts when the waiting caller disconnects; until then the end needs no notification. Default: no caller waits. */
  readonly waiting?: AbortSignal | undefined;
}

const UNKNOWN_STATUS: WorkStatus = { state: "unknown" };

const NEVER = new AbortController().signal;

/**
 * Starts and follows background work, each with its task.
 *
 *     recorded ──▶ started ──▶ followed ──▶ refreshed at its end
 *
 * The status of a task is derived from the record of its run or turn: here when something happens, and in each periodic
 * sweep for the tasks of former or other gateways.
 */
export class Background implements AsyncDisposable {
  readonly #deps: BackgroundDeps;
  readonly #waiting = new Map<string, AbortSignal>();
  readonly #starting = new Set<TaskInput>();
  readonly #recoveredRuns = new Set<string>();
  readonly #followed = new Set<string>();
  readonly #refreshing = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  readonly #watch = new ObservationWindow();
  readonly #typing: TypingIndicator;
  readonly #progress: ProgressReporter;

  constructor(deps: BackgroundDeps) {
    this.#deps = deps;
    this.#typing = new TypingIndicator(deps);
    this.#progress = new ProgressReporter(deps, this, this.#typing, this.#closing.signal);
    // One listener per followed task.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Records a task and starts its work. */
  async runAsTask<Started>(
    input: TaskInput,
    start: (progress: StartHooks) => Promise<Started>,
    options: StartOptions = {},
  ): Promise<Started> {
    // Before the task is recorded: from then on it can be cancelled.
    this.#starting.add(input);
    try {
      return await this.#runAsTask(input, start, options);
    } finally {
      this.#starting.delete(input);
    }
  }

  /** True if the work of a task may still start, apart from the start `except`. */
  isStarting({ key }: Pick<TaskRecord, "key">, except: TaskInput | null = null): boolean {
    for (const each of this.#starting) if (each.key === key && each !== except) return true;
    return false;
  }

  /** Registers runs acquired from others; their tasks are updated before the next sweep. */
  registerRecoveredRuns(runs: Iterable<Pick<Run, "runId">>): void {
    for (const { runId } of runs) this.#recoveredRuns.add(runId);
  }

  /** Updates a task from the state of its work. */
  refreshTask(taskId: string): Promise<void> {
    const refreshing = this.#refreshTask(taskId);
    this.#refreshing.add(refreshing);
    return refreshing.finally(() => this.#refreshing.delete(refreshing));
  }

  /** All changes of tasks pass through here. */
  async apply(taskId: string, event: TaskInputEvent, version?: number): Promise<ApplyResult | null> {
    const { tasks, tail } = this.#deps;
    const complete = event.type === "finish" ? await this.#completeEnd(taskId, event) : event;
    const result = await tasks.apply(taskId, complete, version);
    if (result?.kind !== "same") tail.wake();
    return result;
  }

  async #completeEnd(taskId: string, event: TaskFinish): Promise<TaskFinish> {
    this.#typing.stop(taskId);
    // Before the store is read: the caller may have its answer, and have gone, by then.
    const answered = this.#waiting.get(taskId)?.aborted === false ? { answered: true } : {};
    return { ...(await withUnansweredResult(this.#deps.store, taskId, event)), ...answered };
  }

  /** Sweeps all tasks and the messages in inboxes. Without `apply`, returns what would be done. */
  async maintain(apply: boolean, thorough: boolean): Promise<readonly MaintenanceAction[]> {
    if (apply) {
      for (const runId of this.#recoveredRuns)
        await this.#guarded(runId, `run ${runId}`, () => this.#createMissingTask(runId), undefined);
      await acknowledgeReadMessages(this.#deps.store, { waker: this.#deps.waker });
    }
    return sweepTasks({
      store: this.#deps.store,
      tasks: this,
      workStatusOf: async (task) => {
        const { taskId, runId } = task;
        const readStatus = () => workStatusOf(this.#deps, task);
        const backing = await this.#guarded<WorkStatus>(
          runId,
          `the work of task ${taskId}`,
          readStatus,
          UNKNOWN_STATUS,
        );
        if (apply && backing.state === "alive") this.follow(task);
        return backing;
      },
      now: Date.now,
      // A thorough sweep does not wait for its interval.
      ...(thorough ? {} : { window: this.#watch }),
      apply,
      thorough,
    });
  }

  /** Follows the work to its end if this gateway does it. */
  follow({ taskId, turnId, runId }: Pick<TaskRecord, "taskId" | "turnId" | "runId">): void {
    if (this.#followed.has(taskId) || this.#closing.signal.aborted) return;
    this.#followed.add(taskId);
    const progress = this.#progress;
    const following = turnId === null ? progress.followRun(taskId) : progress.followTurn(taskId, turnId);
    following
      .catch((cause: unknown) => {
        if (this.#closing.signal.aborted || cause instanceof SupervisorClosed) return;
        // The next sweep retries, also for ended work.
        if (runId !== null) this.#recoveredRuns.add(runId);
        if (!(cause instanceof StoreAway))
          this.#deps.onProblem({ runId: null, message: `task ${taskId} could not be followed`, cause });
      })
      .finally(() => {
        this.#typing.stop(taskId);
        this.#followed.delete(taskId);
      });
  }

  /** Records ends that are known; the next gateway handles the rest. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#refreshing);
  }

  async #runAsTask<Started>(
    input: TaskInput,
    start: (progress: StartHooks) => Promise<Started>,
    { waiting: awaited }: StartOptions,
  ): Promise<Started> {
    const { task, created } = await this.#deps.tasks.create(input);
    const { taskId, status } = task;
    // The run id of work that never started must not be used again: the task could not tell the two apart.
    if (!created && isTaskEnded(status) && (await workStatusOf(this.#deps, task)).state === "gone")
      throw new TaskRefused(taskId, status, "ended");
    if (awaited !== undefined) this.#waiting.set(taskId, awaited);
    try {
      const started = await start({
        taskId,
        onStarted: () => this.follow(task),
        onRunReplaced: async (runId) => {
          const result = await this.apply(taskId, { type: "link", at: Date.now(), to: { runId } });
          if (result?.kind === "refused") throw new TaskRefused(taskId, result.task.status, result.why);
        },
        onDetached: () => void this.#waiting.delete(taskId),
      });
      // The work has started even if that cannot be recorded now; the next sweep retries.
      await systemClock.sleep(defaults.storeAnswerMs, this.refreshTask(taskId));
      return started;
    } catch (error) {
      // The gateway is stopping; the caller can retry with the next one.
      const stops = error instanceof SupervisorClosed;
      // Requested twice at once: the other request may succeed.
      if (!stops && !this.isStarting(task, input)) await this.#failTask(task, error).catch(() => undefined);
      throw error;
    } finally {
      this.#waiting.delete(taskId);
      this.follow(task);
    }
  }

  /** Creates tasks for runs without one, and stops runs whose task was cancelled. */
  async #createMissingTask(runId: string): Promise<void> {
    const { store, supervisor, tasks } = this.#deps;
    const record = await supervisor.getRun(runId);
    const work = record === null ? null : taskForRecoveredRun(record);
    const [known] = await store.listTasks({ runId, limit: 1 });
    if (known === undefined && work !== null) await tasks.create(work);
    if (known?.status === "cancelled" && known.turnId === null) this.follow(known);
    this.#recoveredRuns.delete(runId);
  }

  /** Fails the task at once, with a notification. Work that has started continues. */
  async #failTask(task: TaskRecord, error: unknown): Promise<void> {
    const { state } = await workStatusOf(this.#deps, task);
    if (state !== "gone") return;
    this.#waiting.set(task.taskId, NEVER);
    await this.apply(task.taskId, startFailure(error));
  }

  /** Reports a failure without stopping the sweep. */
  async #guarded<Found>(
    runId: string | null,
    what: string,
    read: () => Promise<Found>,
    otherwise: Found,
  ): Promise<Found> {
    try {
      return await read();
    } catch (cause) {
      if (cause instanceof StoreAway || cause instanceof SupervisorClosed) throw cause;
      const message = `the state of ${what} could not be read; retrying`;
      this.#deps.onProblem({ runId, message, cause });
      return otherwise;
    }
  }

  async #refreshTask(taskId: string): Promise<void> {
    const task = await this.#deps.store.getTask(taskId);
    if (task === null || isTaskEnded(task.status)) return;
    const backing = await workStatusOf(this.#deps, task);
    const now = Date.now();
    const wanted = planMaintenance(task, backing, now, this.#watch.observedSince(now));
    if (wanted?.act === "tell") await this.apply(taskId, wanted.event);
  }
}

/** The event for work that failed to start. */
function startFailure(error: unknown): TaskFinish {
  const at = Date.now();
  const failed = { type: "finish", status: "failed", outcome: null, summary: null } as const;
  return { ...failed, at, startedAt: at, error: errorMessage(error), actor: "" };
}
