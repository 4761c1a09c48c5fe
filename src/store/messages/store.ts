import type { MessageDelivery, NewMessage, SessionMessage } from "../../model/session.js";

export interface MessageFilter {
  /** Only those that wait for a turn. */
  readonly pending?: true;
  readonly deliver?: MessageDelivery;
  readonly after?: number;
  readonly before?: number;
  readonly runId?: string;
  readonly cause?: string;
  /** The newest so many; with `pending` or `after`, the oldest. In the order they were said in any case. */
  readonly limit: number;
}

export interface MessageCount {
  readonly total: number;
  /** Not delivered: they wait, or are on their way. */
  readonly pending: number;
  /** Taken to the agent by a turn that came to nothing. They are not sent again. */
  readonly undelivered: number;
  readonly lastAt: number | null;
}

/** Of one session, or of all that a gateway has. */
export type UnansweredFilter = { readonly sessionId: string } | { readonly gatewayInstanceId: string };

/** How much of one session is kept. What waits is kept in any case; so there may not be too much of it. */
export interface HistoryLimits {
  readonly bytes: number;
  readonly messages: number;
  /** Said to it and not delivered; and as many notices. */
  readonly pending: number;
}

/** What was said in sessions, and what waits to be. */
export interface MessageStore {
  /**
   * `closed`: the session is not open. `full`: it has as many waiting as it may. Nothing was written then, nor when its
   * cause was there before: that message is the answer.
   */
  appendMessage(message: NewMessage, bounds: HistoryLimits): Promise<SessionMessage | "closed" | "full">;
  listMessages(sessionId: string, filter: MessageFilter): Promise<readonly SessionMessage[]>;
  countMessages(sessionId: string): Promise<MessageCount>;
  /** Those of them that were waiting until now. What a turn has taken is not touched. */
  deliverMessages(sessionId: string, ids: readonly string[], at: number): Promise<readonly string[]>;
  /** What runs of these sessions were given and have not answered yet, oldest first. */
  listUnansweredMessages(of: UnansweredFilter, limit: number): Promise<readonly SessionMessage[]>;
  /** Forget what was delivered, and said before. Returns how many. */
  deleteSettledMessages(saidBefore: number): Promise<number>;
}
