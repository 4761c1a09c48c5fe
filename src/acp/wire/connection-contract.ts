import type { Clock } from "../../async/clock.js";
import type { OutgoingFrame, StreamChunk } from "./frames.js";
import type { RpcId, RpcOutcome, SessionUpdate } from "./message.js";
import type { PendingRequest } from "./pending-requests.js";

/** A request from the agent, to be answered with `AcpConnection.answer`, now or later. */
export interface AgentRpcRequest {
  readonly id: RpcId;
  readonly method: string;
  readonly params: unknown;
  /** The offset after its frame. */
  readonly end: number;
}

/**
 * Handles what the agent sends, one frame after the other, in order. A handler resolves when its effects are stored
 * together with `end`: the stream is acknowledged after that, and a frame before the acknowledgement comes again after a
 * crash. A handler must not wait for an answer of the agent. A handler that fails closes the connection.
 */
export interface ConnectionHandlers {
  /** Consecutive updates. */
  onUpdates(batch: readonly SessionUpdate[]): Promise<void>;
  /** By method. Any other method is answered with "method not found". */
  readonly requests: Readonly<Record<string, (request: AgentRpcRequest) => Promise<void>>>;
  /** Before a frame is written, in place of the frame before it. `request`: null if the frame is not a request. */
  beforeSend?(frame: OutgoingFrame, request: PendingRequest | null): Promise<void>;
  /** Before the answer is passed to the caller. */
  onAnswer?(request: PendingRequest, outcome: RpcOutcome, end: number): Promise<void>;
  /** Handles consecutive updates together with the answer after them. Absent: `onUpdates`, then `onAnswer`. */
  onUpdatesAndAnswer?(
    batch: readonly SessionUpdate[],
    request: PendingRequest,
    outcome: RpcOutcome,
    end: number,
  ): Promise<void>;
  /** Everything before this offset is handled, so the next process may read from here. */
  onConsumed?(end: number): Promise<void>;
  /** The agent has sent nothing for this time during a turn. Must not reject. */
  onStall?(silentMs: number): Promise<void>;
  /** The agent sent messages, which are handled. */
  onActivity?(): Promise<void>;
  /** A line that is not a frame. */
  onMalformed?(why: string, excerpt: string): void;
}

/** The state with which the next gateway process continues in the middle of a turn. */
export interface ConnectionState {
  readonly pending: readonly PendingRequest[];
  /** Requests of the agent without an answer. */
  readonly openRequests: readonly Pick<AgentRpcRequest, "id" | "method">[];
  /** The last frame that was passed to `beforeSend`. */
  readonly outgoing: OutgoingFrame | null;
}

export interface AcpConnectionDeps {
  /** The agent's stdout from `startAt` on, until the signal aborts. Nothing is read while a batch is handled. */
  source(signal: AbortSignal): AsyncIterable<StreamChunk>;
  readonly startAt?: number;
  /** Resolves when the anchor has accepted the bytes. */
  write(bytes: Uint8Array): Promise<void>;
  /** The effects of everything before this offset are stored. */
  ack(offset: number): void;
  readonly handlers: ConnectionHandlers;
  readonly clock?: Clock;
  readonly firstId?: number;
  readonly restored?: ConnectionState;
  /** Bytes of the agent's stdin that the anchor had accepted at the start. */
  readonly stdinAccepted?: number;
  readonly maxFrameBytes?: number;
}

export interface AcpRequestOptions {
  /** Null: no deadline (a turn has `watchTurn`). */
  readonly deadlineMs: number | null;
  /** Close the connection when the deadline passes. */
  readonly fatal?: boolean;
}
