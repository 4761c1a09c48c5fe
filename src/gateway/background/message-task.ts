import { TaskRefused } from "../../errors.js";
import type { SessionMessage } from "../../model/session.js";
import type { Sessions } from "../../sessions/sessions.js";
import { taskKeyOfTurn } from "../../tasks/new-task.js";
import { resultTargets } from "../../tasks/reply-routing.js";
import type { Background } from "./background.js";
import { findParentSession } from "./notify-targets.js";

/** A session's agent is woken by a message: what its parent says is work for that parent, anything else is talk. */
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
    // It is said all the same: whoever waits behind it must not wait for ever.
    if (error instanceof TaskRefused) return start();
    throw error;
  });
}
