import { TaskRefused } from "../../errors.js";
import type { SessionRecord } from "../../model/session.js";
import type { SessionMessage } from "../../model/session-message.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import { endedTaskOf } from "../../tasks/notification-text.js";
import { type TaskInput, taskKeyOfTurn } from "../../tasks/tasks.js";
import { WAKE_KIND } from "../../tasks/wake-limits.js";
import type { Background } from "./background-work.js";
import { defaultOrigin, routeToUser, type TargetDeps } from "./notification-targets.js";
import { findParentSession } from "./parent-session-and-task.js";

interface MessageTurnDeps extends TargetDeps {
  readonly background: Pick<Background, "runAsTask">;
  readonly sessions: Pick<Sessions, "get">;
  readonly store: Pick<TaskStore, "getTask" | "listTasks">;
}

/**
 * Runs a message that wakes an agent as a turn. A message of the parent session becomes a task of the parent; the end of
 * a task becomes a task whose result goes to the user.
 */
export async function runMessageAsTask(
  deps: MessageTurnDeps,
  message: SessionMessage,
  turnId: string,
  start: () => Promise<void>,
): Promise<void> {
  const { sessionId } = message;
  const row = await deps.sessions.get(sessionId);
  const work =
    row === null ? null : ((await parentTask(deps, row, message)) ?? (await wokenTask(deps, message)));
  if (row === null || work === null) return start();
  const turn = { runtime: "acp", key: taskKeyOfTurn(turnId), text: message.text, turnId } as const;
  const of = { childSessionId: sessionId, agentId: row.agentId };
  return deps.background.runAsTask({ ...turn, ...of, ...work }, start).catch((error: unknown) => {
    // The turn runs without a task, so that later messages are not blocked.
    if (error instanceof TaskRefused) return start();
    throw error;
  });
}

type MessageTask = Pick<
  TaskInput,
  "label" | "kind" | "ownerSessionId" | "parentTaskId" | "targets" | "origin"
>;

/** Null: the message is not of the parent. */
async function parentTask(
  deps: MessageTurnDeps,
  row: SessionRecord,
  { fromSessionId }: SessionMessage,
): Promise<MessageTask | null> {
  const parentSessionId = await findParentSession(deps.sessions, row);
  if (parentSessionId === null || fromSessionId !== parentSessionId) return null;
  const routed = await routeToUser(deps, {
    mode: row.interactionMode,
    parentSessionId,
    requesterSessionId: parentSessionId,
    origin: null,
  });
  return { ownerSessionId: parentSessionId, ...routed };
}

/** Null: the message is not the end of a task. */
async function wokenTask(
  deps: MessageTurnDeps,
  { sessionId, role, cause }: SessionMessage,
): Promise<MessageTask | null> {
  const endedTaskId = role === "system" && cause !== null ? endedTaskOf(cause) : null;
  const ended = endedTaskId === null ? null : await deps.store.getTask(endedTaskId);
  if (ended === null) return null;
  const { taskId, label, origin } = ended;
  const known = origin !== null && Object.hasOwn(deps.channels, origin.channel) ? origin : null;
  const user = known ?? defaultOrigin(deps);
  return {
    label: `result of “${label}”`,
    kind: WAKE_KIND,
    ownerSessionId: sessionId,
    parentTaskId: taskId,
    targets: user === null ? [] : [{ kind: "channel", channel: user.channel, address: user.address }],
    origin: known,
  };
}
