import { StoreAway, TaskRefused } from "../../errors.js";
import type { SessionMessage } from "../../model/session.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { Deliver } from "../../tasks/delivery.js";
import { taskKeyOfTurn, Tasks } from "../../tasks/tasks.js";
import { Notifier } from "../../tasks/notifier.js";
import { resultTargets } from "../../tasks/notification-routing.js";
import { TaskEventFollower } from "../monitoring/event-follower.js";
import { TaskMetrics } from "../monitoring/metrics.js";
import { Background, type BackgroundDeps } from "./background.js";
import { findParentSession } from "./notifications.js";

export interface OpenBackgroundOptions extends Omit<BackgroundDeps, "tasks" | "tail"> {
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

/** Runs a message that wakes an agent as a turn. A message of the parent session becomes a task of the parent. */
export async function runMessageAsTask(
  { background, sessions }: { readonly background: Background; readonly sessions: Pick<Sessions, "get"> },
  { sessionId, fromSessionId, text }: SessionMessage,
  turnId: string,
  start: () => Promise<void>,
): Promise<void> {
  const row = await sessions.get(sessionId);
  const parentSessionId = row === null ? null : await findParentSession(sessions, row);
  if (row === null || parentSessionId === null || fromSessionId !== parentSessionId) return start();
  const running = background.runAsTask(
    {
      runtime: "acp",
      key: taskKeyOfTurn(turnId),
      text,
      ownerSessionId: parentSessionId,
      childSessionId: sessionId,
      agentId: row.agentId,
      turnId,
      targets: resultTargets({
        mode: row.interactionMode,
        parentSessionId,
        requesterSessionId: parentSessionId,
        origin: null,
      }),
    },
    start,
  );
  return running.catch((error: unknown) => {
    // The turn runs without a task, so that later messages are not blocked.
    if (error instanceof TaskRefused) return start();
    throw error;
  });
}
