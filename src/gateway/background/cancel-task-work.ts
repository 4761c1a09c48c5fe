import { setTimeout } from "node:timers/promises";
import type { AcpController } from "../../acp/controller.js";
import { withTimeLimit } from "../../async/abort.js";
import type { ResponseOf } from "../../api/contract.js";
import type { Survivor } from "../../model/process.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import type { AcpStore } from "../../store/acp/contract.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { TaskFinish } from "../../tasks/transition.js";
import type { TaskEventFollower } from "../monitoring/event-follower.js";
import type { RunStopper } from "../peers/remote-stops.js";
import type { Background } from "./background-work.js";

const TASK_END_WAIT_MS = 5_000;
/** How long to wait until the run of a task is recorded. */
const POLL_MS = 20;

interface CancelDeps {
  readonly store: Pick<TaskStore, "getTask"> & Pick<AcpStore, "getAcpSession" | "getAcpTurn">;
  readonly supervisor: Pick<Supervisor, "getRun">;
  readonly runStopper: RunStopper;
  readonly acp: Pick<AcpController, "isLost" | "closeSession" | "cancelTurn">;
  readonly background: Background;
  readonly tail: TaskEventFollower;
}

/** Stops the work of a task. The task then records how the work ended; it may have ended by itself before. */
export async function cancelTaskWork(
  deps: CancelDeps,
  task: TaskRecord,
  actor: string,
  disconnected: AbortSignal,
): Promise<ResponseOf<"cancelTask">> {
  if (isTaskEnded(task.status)) return { task, outcome: "ended-before", survivors: [] };
  const { background, store } = deps;
  const { taskId } = task;
  let survivors = await stopOnceStarted(deps, task, actor, disconnected);
  if (survivors === null) {
    await background.apply(taskId, cancelledBy(actor));
    // Another gateway may have started the work after reading the task, before the cancellation.
    survivors = await stopWork(deps, task, actor, disconnected);
  } else await background.refreshTask(taskId);
  if (survivors?.length === 0) await waitForTaskEnd(deps, taskId, disconnected);
  const now = (await store.getTask(taskId)) ?? task;
  const outcome = !isTaskEnded(now.status)
    ? "going-on"
    : now.status === "cancelled"
      ? "cancelled"
      : "ended-before";
  return { task: now, outcome, survivors: [...(survivors ?? [])] };
}

/** Waits for work that is starting, because it could not be stopped afterwards. Null: nothing runs. */
async function stopOnceStarted(
  deps: CancelDeps,
  task: TaskRecord,
  actor: string,
  disconnected: AbortSignal,
): Promise<readonly Survivor[] | null> {
  for (;;) {
    // Before the read, which then finds work that started meanwhile.
    const begins = deps.background.isStarting(task);
    const survivors = await stopWork(deps, task, actor, disconnected);
    if (survivors !== null || !begins) return survivors;
    await setTimeout(POLL_MS, undefined, { signal: disconnected });
  }
}

/** Waits until the gateway of another host records the end. */
async function waitForTaskEnd(
  { tail }: CancelDeps,
  taskId: string,
  disconnected: AbortSignal,
): Promise<void> {
  using enough = withTimeLimit(disconnected, TASK_END_WAIT_MS);
  for await (const _ of tail.follow(taskId, 0, enough.signal));
}

/** Null: nothing runs, so recording the cancellation is enough. */
function stopWork(
  deps: CancelDeps,
  task: TaskRecord,
  actor: string,
  disconnected: AbortSignal,
): Promise<readonly Survivor[] | null> {
  return task.turnId === null ? stopRun(deps, task, actor, disconnected) : cancelTurn(deps, task, actor);
}

async function stopRun(
  { supervisor, runStopper }: CancelDeps,
  { runId }: TaskRecord,
  actor: string,
  disconnected: AbortSignal,
): Promise<readonly Survivor[] | null> {
  const record = runId === null ? null : await supervisor.getRun(runId);
  return record === null ? null : (await runStopper.stop(record, { actor }, disconnected)).survivors;
}

/** Closes a session with mode `run`; cancels only the turn in any other session. */
async function cancelTurn(
  { store, acp }: CancelDeps,
  { turnId, childSessionId }: TaskRecord,
  actor: string,
): Promise<readonly Survivor[] | null> {
  const turn = turnId === null ? null : await store.getAcpTurn(turnId);
  const session = childSessionId === null ? null : await store.getAcpSession(childSessionId);
  if (turn === null || session === null) return null;
  const { sessionId, mode } = session;
  if (turn.state === "ended") return [];
  if (mode === "run" || (await acp.isLost(session)))
    return (await acp.closeSession(sessionId, { actor })).survivors;
  await acp.cancelTurn(sessionId, { actor, turnId: turn.turnId });
  return [];
}

function cancelledBy(actor: string): TaskFinish {
  return {
    type: "finish",
    at: Date.now(),
    status: "cancelled",
    outcome: null,
    summary: null,
    error: `it was cancelled by ${actor}`,
    actor,
    startedAt: null,
  };
}
