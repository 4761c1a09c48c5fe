import { defaults } from "../defaults.js";
import { AcpQueueFull, AcpSessionClosed } from "../errors.js";
import type { AcpTurn, KeptProblem } from "../store/acp-record.js";
import type { AcpStore } from "../store/acp-store.js";
import type { Clock } from "../supervisor/clock.js";
import { newTurnId } from "./ids.js";
import type { KeptSession } from "./kept-session.js";

export interface PromptRequest {
  readonly text: string;
  readonly askedBy: string;
  /** Left out: a new one. */
  readonly turnId?: string;
  /** The agent is ended when it has not answered by then. */
  readonly timeoutMs?: number;
}

export interface QueueParts {
  readonly store: AcpStore;
  readonly clock: Clock;
  readonly kept: KeptSession;
}

/** Prompts of a session that wait for their turn. They are in the store; their deadlines are not. */
export class PromptQueue {
  readonly #parts: QueueParts;
  readonly #timeouts = new Map<string, number>();
  /** Up to this one none waits any more: a session of many turns is not gone through for each. */
  #passed = 0;

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  /** Its turn's id, once it is kept. */
  async add({ text, askedBy, turnId = newTurnId(), timeoutMs }: PromptRequest): Promise<string> {
    const { kept, clock } = this.#parts;
    const { sessionId } = kept.row;
    if ((await this.#waiting(defaults.acpQueued)).length >= defaults.acpQueued)
      throw new AcpQueueFull(sessionId, defaults.acpQueued);
    const at = clock.wall();
    const newTurn = { turnId, prompt: text, askedBy, createdAt: at };
    const data = { turnId, state: "queued", prompt: text, askedBy };
    const taken = await kept.commit(
      () =>
        kept.row.state === "closing" ? null : { newTurn, updates: [{ turnId, at, type: "turn", data }] },
      () => {
        if (timeoutMs !== undefined) this.#timeouts.set(turnId, timeoutMs);
      },
    );
    if (!taken) throw new AcpSessionClosed(sessionId);
    return turnId;
  }

  async next(): Promise<AcpTurn | null> {
    const [next] = await this.#waiting(1);
    if (next === undefined) return null;
    this.#passed = next.ordinal - 1;
    return next;
  }

  /** Null: it has none. Asked once, when it is sent. */
  takeTimeout(turnId: string): number | null {
    const timeoutMs = this.#timeouts.get(turnId) ?? null;
    this.#timeouts.delete(turnId);
    return timeoutMs;
  }

  /** False: it does not wait any more. */
  end(turnId: string, outcome: "failed" | "cancelled", problem: KeptProblem | null = null): Promise<boolean> {
    const { kept, clock } = this.#parts;
    const at = clock.wall();
    this.#timeouts.delete(turnId);
    return kept.commit(() => ({
      turns: [{ turnId, from: "queued", set: { state: "ended", endedAt: at, outcome, problem } }],
      updates: [{ turnId, at, type: "turn", data: { turnId, state: "ended", outcome, problem } }],
    }));
  }

  /** That one, or the next. Null: there is none, or it has just been sent. */
  async cancel(turnId?: string): Promise<string | null> {
    const queued = await this.#waiting();
    const turn = turnId === undefined ? queued[0] : queued.find((each) => each.turnId === turnId);
    if (turn === undefined) return null;
    return (await this.end(turn.turnId, "cancelled")) ? turn.turnId : null;
  }

  #waiting(limit?: number): Promise<readonly AcpTurn[]> {
    const { store, kept } = this.#parts;
    const { sessionId } = kept.row;
    const queued = { sessionId, states: ["queued"], after: this.#passed } as const;
    return store.listAcpTurns({ ...queued, ...(limit === undefined ? {} : { limit }) });
  }
}
