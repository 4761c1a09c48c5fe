import type { MessageDelivery, NewMessage, SessionMessage } from "../../model/session-message.js";

export interface MessageFilter {
  /** Only messages that wait for a turn. */
  readonly pending?: true;
  readonly deliver?: MessageDelivery;
  readonly after?: number;
  readonly before?: number;
  readonly runId?: string;
  readonly cause?: string;
  /** The newest so many; with `pending` or `after`, the oldest. Always in the order of their places. */
  readonly limit: number;
}

export interface MessageCount {
  readonly total: number;
  /** Not delivered: they wait, or a turn has taken them. */
  readonly pending: number;
  /** Taken to the agent by a turn that failed. They are not sent again. */
  readonly undelivered: number;
  readonly lastAt: number | null;
}

/** The messages of one session, or of all sessions of a gateway. */
export type UnansweredFilter = { readonly sessionId: string } | { readonly gatewayInstanceId: string };

/** How many messages of one session are kept. Waiting messages are always kept, so their number is limited. */
export interface HistoryLimits {
  readonly bytes: number;
  readonly messages: number;
  /** Waiting messages; and as many notices. */
  readonly pending: number;
}

export interface MessageReads {
  listMessages(sessionId: string, filter: MessageFilter): Promise<readonly SessionMessage[]>;
  countMessages(sessionId: string): Promise<MessageCount>;
  /** Messages that runs of open sessions took and have not answered, oldest first. */
  listUnansweredMessages(of: UnansweredFilter, limit: number): Promise<readonly SessionMessage[]>;
}

export interface MessageWrites {
  /**
   * `closed`: the session is not open. `full`: too many messages wait. Nothing is written then. If a message with the
   * same cause exists, nothing is written and that message is returned.
   */
  appendMessage(message: NewMessage, limits: HistoryLimits): Promise<SessionMessage | "closed" | "full">;
  /** Marks messages as delivered. Returns the ids of those that waited; messages that a turn has taken are not changed. */
  deliverMessages(sessionId: string, ids: readonly string[], at: number): Promise<readonly string[]>;
  /** Deletes settled messages that were written before. Returns how many. */
  deleteSettledMessages(writtenBefore: number): Promise<number>;
}

export interface MessageStore extends MessageReads, MessageWrites {}
