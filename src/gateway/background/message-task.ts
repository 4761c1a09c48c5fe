import { TaskRefused } from "../../errors.js";
import type { SessionMessage } from "../../model/session.js";
import type { Sessions } from "../../sessions/sessions.js";
import { resultTargets } from "../../tasks/reply-routing.js";
import { taskKeyOfTurn } from "../../tasks/tasks.js";
import type { Background } from "./background.js";
import { findParentSession } from "./notify-targets.js";

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
