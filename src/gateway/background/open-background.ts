import { StoreAway } from "../../errors.js";
import type { Deliver } from "../../tasks/delivery-attempt.js";
import { Tasks } from "../../tasks/tasks.js";
import { Notifier } from "../../tasks/notifier.js";
import { TaskEventFollower } from "../monitoring/event-follower.js";
import { TaskMetrics } from "../monitoring/metrics.js";
import { Background, type BackgroundDeps } from "./background-work.js";

interface OpenBackgroundOptions extends Omit<BackgroundDeps, "tasks" | "tail"> {
  readonly deliver: Deliver;
  readonly instanceId: string;
}

/** The task store, the background work and the notifier. */
export interface BackgroundServices extends AsyncDisposable {
  readonly tasks: Tasks;
  readonly background: Background;
  readonly tail: TaskEventFollower;
  readonly metrics: TaskMetrics;
  /** Wakes the notifier. */
  wakeNotifier(): void;
  /** Updates all tasks from their work and sends due notifications. */
  maintainTasks(): Promise<void>;
}

export function openBackground({ deliver, instanceId, ...deps }: OpenBackgroundOptions): BackgroundServices {
  const { store, onProblem } = deps;
  const metrics = new TaskMetrics(store);
  const notifier = new Notifier({
    store,
    deliver,
    owner: instanceId,
    onSettled: (status) => metrics.countAttempt(status),
    onStoreError: (what, cause) => {
      // Other jobs report an unreachable store.
      if (!(cause instanceof StoreAway))
        onProblem({ runId: null, message: `${what} failed; retrying`, cause });
    },
  });
  const wakeNotifier = (): void => notifier.wake();
  const tasks = new Tasks({ store, onNotice: wakeNotifier, onEnd: (status) => metrics.countEnd(status) });
  const tail = new TaskEventFollower(store);
  const background = new Background({ ...deps, tasks, tail });
  return {
    tasks,
    background,
    tail,
    metrics,
    wakeNotifier,
    maintainTasks: async () => {
      notifier.start();
      await background.maintain(true, false);
    },
    async [Symbol.asyncDispose]() {
      await notifier.stop();
      await background[Symbol.asyncDispose]();
      tail.close();
    },
  };
}
