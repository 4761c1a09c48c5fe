import type { RpcOutcome, RpcId } from "./message.js";
import type { OutgoingFrame } from "./frame-writer.js";
import type { PendingRequest } from "./pending-requests.js";
import type { SessionUpdate } from "./session-update.js";

/** A request of the agent's, to be answered with `Connection.answer`, now or later. */
export interface AgentRpcRequest {
  readonly id: RpcId;
  readonly method: string;
  readonly params: unknown;
  /** The offset after its frame. */
  readonly end: number;
}

/**
 * What is done with what the agent says: one after the other, in its order, and the stream is let go of only after
 * that. So a handler resolves when its effects are kept (with `end`: what is kept and not yet let go of comes again
 * after a crash), and must not wait for an answer of the agent. One that fails closes the connection.
 */
export interface ConnectionHandlers {
  /** Updates that came one after the other. */
  onUpdates(batch: readonly SessionUpdate[]): Promise<void>;
  /** By method. What is not here does not exist for the agent: it is told so at once. */
  readonly requests: Readonly<Record<string, (question: AgentRpcRequest) => Promise<void>>>;
  /** Before a frame is written. It takes the place of the one before; `request`: what it asks, if it does. */
  beforeSend?(frame: OutgoingFrame, request: PendingRequest | null): Promise<void>;
  /** Before the answer is handed to who asked. */
  onAnswer?(request: PendingRequest, outcome: RpcOutcome, end: number): Promise<void>;
  /** Everything before that offset is dealt with, also what there was nothing to keep of: from there it is read again. */
  onConsumed?(end: number): Promise<void>;
  /** A line that is no frame. */
  onMalformed?(why: string, excerpt: string): void;
}
