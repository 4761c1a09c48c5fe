import { deferred, type Deferred } from "../../async/deferred.js";
import type { AcpTurn, AcpTurnCancellation } from "../../model/acp.js";
import type { TurnSummary } from "./turn-summary.js";

/** The turn that an agent works on, or is about to be sent. */
export interface RunningTurn {
  readonly turnId: string;
  readonly askedBy: string;
  /** Processes in the agent's tree before the turn; null: they could not be listed. */
  readonly before: readonly string[] | null;
  readonly contextLost: boolean;
  /** Messages from the inbox that are sent with the prompt. */
  readonly messageIds: readonly string[];
  readonly summary: TurnSummary;
  /** Resolves when the turn's end is stored. */
  readonly endRecorded: Deferred<void>;
  /** Resolves when the processes that the turn left are audited. */
  readonly audited: Deferred<void>;
  /** Null: the prompt has not been sent. */
  requestId: number | null;
  cancel: AcpTurnCancellation | null;
  ended: boolean;
  keptBytes: number;
  droppedUpdates: number;
}

export function newRunningTurn(
  { turnId, askedBy }: AcpTurn,
  start: Pick<RunningTurn, "before" | "contextLost" | "messageIds" | "summary">,
): RunningTurn {
  return {
    turnId,
    askedBy,
    ...start,
    endRecorded: deferred<void>(),
    audited: deferred<void>(),
    requestId: null,
    cancel: null,
    ended: false,
    keptBytes: 0,
    droppedUpdates: 0,
  };
}
