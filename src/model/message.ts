/** `user`: said to the session; `agent`: said by it; `system`: said to it about its surroundings. */
export const MESSAGE_ROLES = ["user", "agent", "system"] as const;
export type MessageRole = (typeof MESSAGE_ROLES)[number];

/** `wake`: its agent is given it as a prompt of its own, where that can be; `next-turn`: with whatever it is asked next. */
export const MESSAGE_DELIVERIES = ["wake", "next-turn"] as const;
export type MessageDelivery = (typeof MESSAGE_DELIVERIES)[number];

/** One thing that was said in a session. Times are wall-clock milliseconds. */
export interface SessionMessage {
  readonly id: string;
  readonly sessionId: string;
  /** Its place in the session, among messages and turns: from 1, without gaps when it was said, never used again. */
  readonly seq: number;
  readonly role: MessageRole;
  /** The session that said it; null: it was none. Only to be shown: it may be forgotten by now. */
  readonly fromSessionId: string | null;
  readonly actor: string;
  readonly text: string;
  /** The run that took it, or that it came out of. */
  readonly runId: string | null;
  /** What it was said because of, where that must not be said twice: of two with one cause, the first is kept. */
  readonly cause: string | null;
  readonly at: number;
  readonly deliver: MessageDelivery;
  /**
   * The turn that takes it to its agent: one, whatever comes of that. A notice is told until it is had: one that came to
   * nothing lets go of it. Null: none does, or not yet.
   */
  readonly turnId: string | null;
  /** Turns that have let go of it. Whether the agent had it from them nobody knows. */
  readonly inVain: number;
  /** When its agent had answered it, or it needed no answer. Null: it waits, or its turn came to nothing. */
  readonly deliveredAt: number | null;
}

export type NewMessage = Omit<SessionMessage, "seq">;
