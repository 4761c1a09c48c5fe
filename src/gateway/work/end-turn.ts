import type { AcpController } from "../../acp/controller.js";
import type { Survivor } from "../../anchor/host.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { TaskRecord } from "../../store/task-record.js";

export interface EndTurnParts {
  readonly store: Pick<AcpStore, "getAcpSession" | "getAcpTurn">;
  readonly acp: Pick<AcpController, "isLost" | "closeSession" | "cancelTurn">;
}

/** Null: there is none. A session that is one run ends with it; any other stays, without the turn. */
export async function endTurn(
  { store, acp }: EndTurnParts,
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
