import type { SessionUpdate } from "../wire/message.js";
import { TurnSummary } from "./turn-summary.js";

/** The origin of an update: replayed history, the running turn, or neither. */
type UpdateScope = "replay" | "turn" | "between";

/** Separates the history that `session/load` replays from new updates of a session. */
export class ReplayFilter {
  readonly #sessionId: string;
  #replaying = false;
  #turn: TurnSummary | null = null;

  constructor(sessionId: string) {
    this.#sessionId = sessionId;
  }

  get turn(): TurnSummary | null {
    return this.#turn;
  }

  /** `session/load` was sent; all updates until it is answered are history. */
  beginReplay(): void {
    this.#replaying = true;
  }

  endReplay(): void {
    this.#replaying = false;
  }

  beginTurn(): TurnSummary {
    this.#turn = new TurnSummary();
    return this.#turn;
  }

  /** Updates after the answer belong to no turn. */
  endTurn(): void {
    this.#turn = null;
  }

  /** Null: the update is of another session. */
  classify(update: SessionUpdate): UpdateScope | null {
    if (update.sessionId !== this.#sessionId) return null;
    if (this.#replaying) return "replay";
    if (this.#turn === null) return "between";
    this.#turn.apply(update);
    return "turn";
  }
}
