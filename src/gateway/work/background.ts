import { setMaxListeners } from "node:events";
import { defaults } from "../../defaults.js";
import { StoreAway, SupervisorClosed, TaskRefused } from "../../errors.js";
import type { TaskRecord } from "../../store/task-record.js";
import { isEnded } from "../../store/task-record.js";
import type { TaskStore } from "../../store/task-store.js";
import type { Problem, Run, Supervisor } from "../../supervisor/api.js";
import { systemClock } from "../../supervisor/clock.js";
import { measure, type Backing, type Measure } from "../../tasks/maintenance.js";
import type { TaskInput } from "../../tasks/new-task.js";
import { sweep } from "../../tasks/sweep.js";
import type { Tasks, Told } from "../../tasks/tasks.js";
import type { Finish, Happening } from "../../tasks/transition.js";
import { Watch } from "../../tasks/watch.js";
import { acknowledgeRead, type ReadOf } from "./acknowledge.js";
import { backingOf, type BackingParts } from "./backing.js";
import { Following, type FollowingParts } from "./following.js";
import { workTakenOver } from "./taken-over.js";
import type { TaskTail } from "./task-tail.js";
import { Typing, type TypingParts } from "./typing.js";

export interface BackgroundParts extends BackingParts, FollowingParts, Pick<TypingParts, "channels"> {
  readonly tasks: Tasks;
  readonly store: BackingParts["store"] & TaskStore & ReadOf;
  readonly supervisor: Supervisor;
  readonly acp: BackingParts["acp"] & FollowingParts["acp"];
  readonly tail: TaskTail;
  readonly problem: (problem: Problem) => void;
}

/** What is said of work that is being begun. */
export interface Going {
  /** Null: it has no task. */
  readonly taskId: string | null;
  /** It goes on, while whoever begins it does more. */
  readonly begun: () => void;
  /** It will be, by another run than was thought. */
  readonly doneBy: (runId: string) => Promise<void>;
  /** Whoever waited for it is told that it goes on: of its end, a message is due. */
  readonly sentAway: () => void;
}

export interface Given {
  /** Aborts when whoever asked, and waits for the end, leaves: until then no message is due. Left out: nobody waits. */
  readonly awaited?: AbortSignal | undefined;
}

const UNKNOWN: Backing = { state: "unknown" };

const NEVER = new AbortController().signal;

/**
 * Work that goes on in the background, each piece with its task.
 *
 *     recorded ──▶ begun ──▶ followed ──▶ looked at when it is over
 *
 * What a task says follows from what is on record of its run or turn, whoever looks and whenever: here when something
 * happens, and in every round for what a former gateway, or another, has left.
 */
export class Background implements AsyncDisposable {
  readonly #parts: BackgroundParts;
  readonly #awaited = new Map<string, AbortSignal>();
  readonly #beginning = new Set<TaskInput>();
  readonly #takenOver = new Set<string>();
  readonly #followed = new Set<string>();
  readonly #looking = new Set<Promise<unknown>>();
  readonly #left = new AbortController();
  readonly #watch = new Watch();
  readonly #typing: Typing;
  readonly #following: Following;

  constructor(parts: BackgroundParts) {
    this.#parts = parts;
    this.#typing = new Typing(parts);
    this.#following = new Following(parts, this, this.#typing, this.#left.signal);
    // One for each that is followed.
    setMaxListeners(0, this.#left.signal);
  }

  /** Record work and begin it. */
  async give<Started>(
    input: TaskInput,
    start: (going: Going) => Promise<Started>,
    given: Given = {},
  ): Promise<Started> {
    // Before it is on record: from then on it can be cancelled.
    this.#beginning.add(input);
    try {
      return await this.#give(input, start, given);
    } finally {
      this.#beginning.delete(input);
    }
  }

  /** Whether what does it may come to be yet; not counting who asks. */
  isBeginning({ key }: Pick<TaskRecord, "key">, asks: TaskInput | null = null): boolean {
    for (const each of this.#beginning) if (each.key === key && each !== asks) return true;
    return false;
  }

  /** What others held goes on here, from now on; what that means for its tasks is seen to before the next round. */
  takeOver(runs: Iterable<Pick<Run, "runId">>): void {
    for (const { runId } of runs) this.#takenOver.add(runId);
  }

  /** What a task does not say yet of its work, it says when this resolves. */
  look(taskId: string): Promise<void> {
    const looking = this.#look(taskId);
    this.#looking.add(looking);
    return looking.finally(() => this.#looking.delete(looking));
  }

  /** Whatever is said of a task is said here. */
  async tell(taskId: string, happening: Happening, version?: number): Promise<Told | null> {
    const { tasks, tail } = this.#parts;
    if (happening.type === "finish") this.#typing.end(taskId);
    const answered = happening.type === "finish" && this.#awaited.get(taskId)?.aborted === false;
    const told = await tasks.tell(taskId, answered ? { ...happening, answered } : happening, version);
    if (told?.kind !== "same") tail.wake();
    return told;
  }

  /** One round over all tasks, and over what was told to sessions. Not applied: only what would be done. */
  async maintain(apply: boolean, thorough: boolean): Promise<readonly Measure[]> {
    if (apply) {
      for (const runId of this.#takenOver)
        await this.#tried(runId, `run ${runId}`, () => this.#seeTo(runId), undefined);
      await acknowledgeRead(this.#parts.store);
    }
    return sweep({
      store: this.#parts.store,
      tasks: this,
      backingOf: async (task) => {
        const { taskId, runId } = task;
        const look = () => backingOf(this.#parts, task);
        const backing = await this.#tried<Backing>(runId, `what does task ${taskId}`, look, UNKNOWN);
        if (apply && backing.state === "alive") this.follow(task);
        return backing;
      },
      now: Date.now,
      // Whoever asks for a thorough one wants it now.
      ...(thorough ? {} : { watch: this.#watch }),
      apply,
      thorough,
    });
  }

  /** To its end, if what does it is here. */
  follow({ taskId, turnId, runId }: Pick<TaskRecord, "taskId" | "turnId" | "runId">): void {
    if (this.#followed.has(taskId) || this.#left.signal.aborted) return;
    this.#followed.add(taskId);
    const going = this.#following;
    const following = turnId === null ? going.run(taskId) : going.turn(taskId, turnId);
    following
      .catch((cause: unknown) => {
        if (this.#left.signal.aborted || cause instanceof SupervisorClosed) return;
        // The next round looks again, also at one that has ended.
        if (runId !== null) this.#takenOver.add(runId);
        if (!(cause instanceof StoreAway))
          this.#parts.problem({ runId: null, message: `task ${taskId} could not be followed`, cause });
      })
      .finally(() => {
        this.#typing.end(taskId);
        this.#followed.delete(taskId);
      });
  }

  /** What has ended is said so; the rest is for the next gateway to see. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#left.abort();
    await Promise.allSettled(this.#looking);
  }

  async #give<Started>(
    input: TaskInput,
    start: (going: Going) => Promise<Started>,
    { awaited }: Given,
  ): Promise<Started> {
    const { task, created } = await this.#parts.tasks.create(input);
    const { taskId, status } = task;
    // Under the name of work that never came to be: whatever became of this, its task could not say.
    if (!created && isEnded(status) && (await backingOf(this.#parts, task)).state === "gone")
      throw new TaskRefused(taskId, status, "ended");
    if (awaited !== undefined) this.#awaited.set(taskId, awaited);
    try {
      const started = await start({
        taskId,
        begun: () => this.follow(task),
        doneBy: async (runId) => {
          const told = await this.tell(taskId, { type: "link", at: Date.now(), to: { runId } });
          if (told?.kind === "refused") throw new TaskRefused(taskId, told.task.status, told.why);
        },
        sentAway: () => void this.#awaited.delete(taskId),
      });
      // It is begun, whether that can be noted now or not; the next round looks again.
      await systemClock.pause(defaults.storeAnswerMs, this.look(taskId));
      return started;
    } catch (error) {
      // By a gateway that stops: whoever asked may ask the next one.
      const stops = error instanceof SupervisorClosed;
      // Asked for twice at once: the other may come to be.
      if (!stops && !this.isBeginning(task, input)) await this.#refuse(task, error).catch(() => undefined);
      throw error;
    } finally {
      this.#awaited.delete(taskId);
      this.follow(task);
    }
  }

  /** A command that goes on without a task gets one; what goes on though its task was cancelled is ended. */
  async #seeTo(runId: string): Promise<void> {
    const { store, supervisor, tasks } = this.#parts;
    const record = await supervisor.getRun(runId);
    const work = record === null ? null : workTakenOver(record);
    const [known] = await store.listTasks({ runId, limit: 1 });
    if (known === undefined && work !== null) await tasks.create(work);
    if (known?.status === "cancelled" && known.turnId === null) this.follow(known);
    this.#takenOver.delete(runId);
  }

  /** Whoever asked is told at once. What was begun all the same, or before, goes on. */
  async #refuse(task: TaskRecord, error: unknown): Promise<void> {
    const { state } = await backingOf(this.#parts, task);
    if (state !== "gone") return;
    this.#awaited.set(task.taskId, NEVER);
    await this.tell(task.taskId, refused(error));
  }

  /** What cannot be looked at is reported, and is no reason not to look at the others. */
  async #tried<Found>(
    runId: string | null,
    what: string,
    look: () => Promise<Found>,
    otherwise: Found,
  ): Promise<Found> {
    try {
      return await look();
    } catch (cause) {
      if (cause instanceof StoreAway || cause instanceof SupervisorClosed) throw cause;
      const message = `${what} could not be looked at; trying again`;
      this.#parts.problem({ runId, message, cause });
      return otherwise;
    }
  }

  async #look(taskId: string): Promise<void> {
    const task = await this.#parts.store.getTask(taskId);
    if (task === null || isEnded(task.status)) return;
    const backing = await backingOf(this.#parts, task);
    const now = Date.now();
    const wanted = measure(task, backing, now, this.#watch.since(now));
    if (wanted?.act === "tell") await this.tell(taskId, wanted.happening);
  }
}

/** It was tried, and that was all. */
function refused(error: unknown): Finish {
  const at = Date.now();
  return {
    type: "finish",
    at,
    status: "failed",
    outcome: null,
    summary: null,
    error: error instanceof Error ? error.message : String(error),
    actor: "",
    startedAt: at,
  };
}
