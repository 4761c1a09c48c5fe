import { Turn } from "./turn.js";
import type { Update } from "./wire/updates.js";

/** What an update belongs to: history that is told again, the turn under way, or neither. */
export type Belonging = "replay" | "turn" | "between";

/** Of one session: keeps what is told again by `session/load` out of what is new. */
export class Conversation {
  readonly #sessionId: string;
  #replaying = false;
  #turn: Turn | null = null;

  constructor(sessionId: string) {
    this.#sessionId = sessionId;
  }

  get turn(): Turn | null {
    return this.#turn;
  }

  /** `session/load` was sent; all updates until it is answered are history. */
  beginReplay(): void {
    this.#replaying = true;
  }

  endReplay(): void {
    this.#replaying = false;
  }

  beginTurn(): Turn {
    this.#turn = new Turn();
    return this.#turn;
  }

  /** What comes after the answer belongs to no turn. */
  endTurn(): void {
    this.#turn = null;
  }

  /** Null: another session's. */
  take(update: Update): Belonging | null {
    if (update.sessionId !== this.#sessionId) return null;
    if (this.#replaying) return "replay";
    if (this.#turn === null) return "between";
    this.#turn.take(update);
    return "turn";
  }
}
