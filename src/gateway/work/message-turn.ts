import { TaskRefused } from "../../errors.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { SessionMessage } from "../../store/message-record.js";
import { keyOfTurn } from "../../tasks/key.js";
import { targetsOf } from "../../tasks/routing.js";
import type { Background } from "./background.js";
import { parentOf } from "./whom.js";

/** A session's agent is woken by a message: what its parent says is work for that parent, anything else is talk. */
export async function wakeFor(
  { background, sessions }: { readonly background: Background; readonly sessions: Pick<Sessions, "get"> },
  { sessionId, fromSessionId, text }: SessionMessage,
  turnId: string,
  begin: () => Promise<void>,
): Promise<void> {
  const row = await sessions.get(sessionId);
  const parentSessionId = row === null ? null : await parentOf(sessions, row);
  if (row === null || parentSessionId === null || fromSessionId !== parentSessionId) return begin();
  const given = background.give(
    {
      runtime: "acp",
      key: keyOfTurn(turnId),
      text,
      ownerSessionId: parentSessionId,
      childSessionId: sessionId,
      agentId: row.agentId,
      turnId,
      targets: targetsOf({
        mode: row.interactionMode,
        parentSessionId,
        requesterSessionId: parentSessionId,
        origin: null,
      }),
    },
    begin,
  );
  return given.catch((error: unknown) => {
    // It is said all the same: whoever waits behind it must not wait for ever.
    if (error instanceof TaskRefused) return begin();
    throw error;
  });
}
