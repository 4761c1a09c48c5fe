import { connectOrStart } from "../client/connect.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { auditNotice, turnEndNotice } from "./view/turn-result.js";

export interface CancelAcpTurnRequest {
  readonly session: string;
  readonly turn: string | null;
  readonly reapTools: boolean;
  readonly json: boolean;
}

/** Cancels the running turn, or a queued one, and waits for its end. The agent stays. */
export async function cancelTurn({
  session,
  turn: turnId,
  reapTools,
  json,
}: CancelAcpTurnRequest): Promise<number> {
  const { client } = await connectOrStart();
  const { sessionId, key } = await resolveAcpSession(client, session);
  const { turn } = await client.acpCancel({
    params: { id: sessionId },
    body: { reapTools, ...(turnId === null ? {} : { turnId }) },
  });
  if (json) print(toJson({ turn }));
  else if (turn === null) notice(`${key} has no ${turnId === null ? "turn" : "such turn"} to cancel`, "dim");
  else {
    const remark = turn.outcome === "cancelled" ? null : turnEndNotice(turn);
    if (remark === null) print(`${turn.turnId} is ${turn.outcome}; ${key} is ready for the next prompt\n`);
    else notice(...remark);
    const left = turn.audit === null ? null : auditNotice(turn.audit);
    if (left !== null) notice(...left);
  }
  if (turn === null) return exitCodes.notThere;
  if (turn.outcome === "cancel-unconfirmed") return exitCodes.cancelUnconfirmed;
  if (turn.audit === null) return 0;
  const { reaped, survivors, unknown } = turn.audit;
  return (reaped && survivors.length > 0) || (reapTools && unknown !== null) ? exitCodes.incomplete : 0;
}
