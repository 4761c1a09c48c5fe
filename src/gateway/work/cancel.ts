import { setTimeout } from "node:timers/promises";
import type { Survivor } from "../../anchor/host.js";
import type { AcpController } from "../../acp/controller.js";
import type { AcpStore } from "../../store/acp-store.js";
import { isEnded, type TaskRecord } from "../../store/task-record.js";
import type { TaskStore } from "../../store/task-store.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Finish } from "../../tasks/transition.js";
import type { AnswerOf } from "../contract/contract.js";
import type { Stops } from "../commands/hand-over.js";
import type { Background } from "./background.js";
import type { TaskTail } from "./task-tail.js";

const SOON_MS = 5_000;
/** It is on record soon after its task. */
const LOOK_MS = 20;

export interface CancelParts {
  readonly store: Pick<TaskStore, "getTask"> & Pick<AcpStore, "getAcpSession" | "getAcpTurn">;
  readonly supervisor: Pick<Supervisor, "getRun">;
  readonly stops: Stops;
  readonly acp: Pick<AcpController, "isLost" | "closeSession" | "cancelTurn">;
  readonly background: Background;
  readonly tail: TaskTail;
}

/** End whatever does a task's work. The task then says what became of that: it may have ended by itself before. */
export async function cancelTask(
  parts: CancelParts,
  task: TaskRecord,
  actor: string,
  gone: AbortSignal,
): Promise<AnswerOf<"cancelTask">> {
  if (isEnded(task.status)) return { task, outcome: "ended-before", survivors: [] };
  const { background, store } = parts;
  const { taskId } = task;
  let survivors = await ended(parts, task, actor, gone);
  if (survivors === null) {
    await background.tell(taskId, cancelled(actor));
    // Another gateway may have begun it since, and looked at its task before it was cancelled.
    survivors = await endNow(parts, task, actor, gone);
  } else await background.look(taskId);
  if (survivors?.length === 0) await said(parts, taskId, gone);
  const now = (await store.getTask(taskId)) ?? task;
  const outcome = !isEnded(now.status)
    ? "going-on"
    : now.status === "cancelled"
      ? "cancelled"
      : "ended-before";
  return { task: now, outcome, survivors: [...(survivors ?? [])] };
}

/** What is being begun is waited for: it could not be ended afterwards. Null: as below. */
async function ended(
  parts: CancelParts,
  task: TaskRecord,
  actor: string,
  gone: AbortSignal,
): Promise<readonly Survivor[] | null> {
  for (;;) {
    // Before the look: what has been begun since is found by it.
    const begins = parts.background.isBeginning(task);
    const survivors = await endNow(parts, task, actor, gone);
    if (survivors !== null || !begins) return survivors;
    await setTimeout(LOOK_MS, undefined, { signal: gone });
  }
}

/** Of what was done elsewhere, the gateway there says what became of it: at once, unless it is away. */
async function said({ tail }: CancelParts, taskId: string, gone: AbortSignal): Promise<void> {
  const enough = AbortSignal.any([gone, AbortSignal.timeout(SOON_MS)]);
  for await (const _ of tail.follow(taskId, 0, enough));
}

/** Null: nothing runs that could be ended, and it is enough to say so. */
function endNow(
  parts: CancelParts,
  task: TaskRecord,
  actor: string,
  gone: AbortSignal,
): Promise<readonly Survivor[] | null> {
  return task.turnId === null ? endRun(parts, task, actor, gone) : endTurn(parts, task, actor);
}

async function endRun(
  { supervisor, stops }: CancelParts,
  { runId }: TaskRecord,
  actor: string,
  gone: AbortSignal,
): Promise<readonly Survivor[] | null> {
  const record = runId === null ? null : await supervisor.getRun(runId);
  return record === null ? null : (await stops.stop(record, { actor }, gone)).survivors;
}

/** A session that is one run ends with it; any other stays, without the turn. */
async function endTurn(
  { store, acp }: CancelParts,
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

function cancelled(actor: string): Finish {
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
