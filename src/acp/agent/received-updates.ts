import { defaults } from "../../defaults.js";
import type { AgentReport } from "../../model/acp/agent-reported-state.js";
import type { NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type { RunningTurn } from "../turn/running-turn.js";
import type { ReplayFilter } from "../turn/replay-filter.js";
import type { SessionUpdate } from "../wire/message.js";
import { stateAfterUpdates } from "./agent-reported-state.js";

/** The changes of a session by one batch of updates. */
export interface ReceivedBatch {
  readonly updates: readonly NewAcpUpdate[];
  /** The state after the batch; null: unchanged. */
  readonly stateAfter: (state: AgentReport | null) => AgentReport | null;
}

/** Selects the updates that are stored, and limits their bytes per turn. */
export class ReceivedUpdates {
  #bytesBetweenTurns = 0;

  beginTurn(): void {
    this.#bytesBetweenTurns = 0;
  }

  /** Replayed history is already stored. Updates of other sessions are ignored. */
  receive(
    batch: readonly SessionUpdate[],
    filter: ReplayFilter,
    turn: RunningTurn | null,
    at: number,
  ): ReceivedBatch {
    const updates: NewAcpUpdate[] = [];
    const ofSession: SessionUpdate[] = [];
    for (const received of batch) {
      const scope = filter.classify(received);
      if (scope === null) continue;
      ofSession.push(received);
      if (scope === "replay") continue;
      const { update: data, bytes } = received;
      if (scope === "turn" && turn !== null) {
        if (turn.keptBytes + bytes > defaults.acpTurnBytes) {
          turn.droppedUpdates++;
          continue;
        }
        turn.keptBytes += bytes;
        updates.push({ turnId: turn.turnId, at, type: "update", data });
      } else if (this.#bytesBetweenTurns + bytes <= defaults.acpTurnBytes) {
        this.#bytesBetweenTurns += bytes;
        updates.push({ turnId: null, at, type: "update", data });
      }
    }
    return { updates, stateAfter: (state) => stateAfterUpdates(state, ofSession) };
  }
}
