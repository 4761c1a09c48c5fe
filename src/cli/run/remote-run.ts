import { setTimeout } from "node:timers/promises";
import type { WebSocket } from "ws";
import type { StreamName, TerminalSize } from "../../anchor/host-interface.js";
import {
  type AttachClientMessage,
  type AttachServerMessage,
  CLOSE_COMPLETE,
  CLOSE_GATEWAY_STOPPED,
  decodeFrame,
  encodeFrame,
} from "../../api/attach-frames.js";
import { deferred } from "../../async/deferred.js";
import { GatewayUnreachable, HoldfastError } from "../../errors.js";
import type { Survivor } from "../../model/process.js";
import type { RunStateName, ServiceFacts } from "../../model/run.js";
import type { OutputChunk, RunEnding } from "../../supervisor/api.js";
import type { CancelOptions, FollowOptions } from "../../supervisor/check-options.js";
import { bellQuery, openAttachSocket, ringBell } from "../client/attach-socket.js";
import type { GatewayConnection } from "../client/connect.js";
import type { StopOutcome } from "../stop/stop-run.js";
import type { ForegroundRun } from "./stdio.js";
import { OutputBuffer, StdinBuffer } from "./stdio-buffers.js";

export interface RemoteRunOptions {
  readonly runId: string;
  readonly connection: GatewayConnection;
  /** The next gateway; null: there will be none while the run is alive. */
  readonly reconnect: (wasStopped: boolean) => Promise<GatewayConnection | null>;
  /** The offsets up to which another process has followed the run. */
  readonly from?: Readonly<Record<StreamName | "stdin", number>> | null;
  /** A gateway has answered and owns the run. */
  readonly onAttached: () => void;
  /** No gateway came back, so output may be missing. */
  readonly onLost: () => void;
  /** The run became a service. */
  readonly onAdopted: () => void;
  /** Stops the run without a gateway; null: there is no such run. Calls `onStopSent` when the anchor has the request. */
  readonly stopWithoutGateway: (
    graceMs: number | null,
    onStopSent: () => void,
  ) => Promise<StopOutcome | null>;
}

/** A live gateway confirms a stop within a tenth of this time. */
const STOP_ACK_MS = 1_000;

/** Errors of a gateway that does not own the run yet, or not any more: the next attempt decides. */
const RETRYABLE_CODES = new Set(["NOT_STEERING", "SUPERVISOR_CLOSED"]);

/**
 * A run in the gateway that belongs to this process. If the connection breaks, it continues with the next one without
 * losing a byte.
 */
export class RemoteRun implements ForegroundRun {
  readonly runId: string;
  readonly #options: RemoteRunOptions;
  readonly #outputs: Readonly<Record<StreamName, OutputBuffer>>;
  readonly #stdin: StdinBuffer;
  readonly #ended = deferred<RunEnding>();
  readonly #unreachable = deferred<undefined>();
  /** Resolves when the run is known to be stopping. */
  readonly #stopAcknowledged = deferred<void>();
  #socket: WebSocket | null = null;
  state: RunStateName = "starting";
  survivors: readonly Survivor[] = [];
  service: ServiceFacts | null = null;
  readonly unreachable = this.#unreachable.promise;
  #size: TerminalSize | null = null;
  /** Stops requested so far: sent again on every connection; only the first of each kind has an effect. */
  #requestedStops: Extract<AttachClientMessage, { type: "stop" }>[] = [];
  #detached = false;

  constructor(options: RemoteRunOptions) {
    this.runId = options.runId;
    this.#options = options;
    const { runId, from } = options;
    this.#stdin = new StdinBuffer(runId, from?.stdin);
    this.#outputs = {
      stdout: new OutputBuffer("stdout", from?.stdout),
      stderr: new OutputBuffer("stderr", from?.stderr),
    };
    this.#ended.promise.catch(() => {});
    void this.#connectLoop(options.connection);
  }

  end(): Promise<RunEnding> {
    return this.#ended.promise;
  }

  async cancel({ actor, graceMs }: CancelOptions = {}): Promise<void> {
    const stop = {
      type: "stop",
      ...(actor === undefined ? {} : { actor }),
      ...(graceMs === undefined ? {} : { graceMs }),
    } as const;
    this.#requestedStops.push(stop);
    const first = this.#requestedStops.length === 1;
    this.#send(stop);
    // The gateway may hang with an open connection. A repeated stop has no effect.
    if (this.#socket !== null && first && (await this.#awaitStopAck())) return;
    const found = await this.#options.stopWithoutGateway(graceMs ?? null, () => this.#setState("exiting"));
    if (found?.outcome === "survivors") this.survivors = found.survivors;
    if (found?.outcome === "gone" || found?.outcome === "ended-before") this.#setState("exited");
  }

  write(data: Uint8Array | string): Promise<void> {
    return this.#stdin.write(typeof data === "string" ? Buffer.from(data) : data);
  }

  async closeStdin(): Promise<void> {
    this.#stdin.end();
  }

  resize(size: TerminalSize): void {
    this.#size = size;
    this.#send({ type: "resize", ...size });
  }

  async *follow({ streams = [] }: FollowOptions = {}): AsyncGenerator<OutputChunk, void, undefined> {
    for (const stream of streams)
      yield* this.#outputs[stream].read((offset) => this.#send({ type: "ack", stream, offset }));
  }

  /** Disconnects. For the gateway, the client of the run is gone. */
  detach(): void {
    this.#detached = true;
    this.#socket?.terminate();
  }

  async #awaitStopAck(): Promise<boolean> {
    const enough = new AbortController();
    const late = setTimeout(STOP_ACK_MS, false, { signal: enough.signal }).catch(() => false);
    const acknowledged = await Promise.race([this.#stopAcknowledged.promise.then(() => true), late]);
    enough.abort();
    return acknowledged;
  }

  /** An observed end stays, even if the next gateway has not recorded it yet. */
  #setState(state: RunStateName): void {
    if (this.state !== "exited") this.state = state;
    if (state === "exiting" || state === "exited") this.#stopAcknowledged.resolve();
  }

  async #connectLoop(first: GatewayConnection): Promise<void> {
    try {
      for (let connection: GatewayConnection | null = first; connection !== null;) {
        const code = await this.#serve(connection);
        if (code === CLOSE_COMPLETE || this.#detached) return;
        connection = await this.#options.reconnect(code === CLOSE_GATEWAY_STOPPED);
      }
      this.#options.onLost();
      this.#unreachable.resolve(undefined);
    } catch (error) {
      this.#ended.reject(error);
    } finally {
      this.#stdin.reject("the connection to its gateway is lost");
      for (const output of Object.values(this.#outputs)) output.end();
    }
  }

  /** Serves one connection until it is closed; returns the close code. Rejects if reconnecting is pointless. */
  async #serve(connection: GatewayConnection): Promise<number> {
    const offsets = Object.entries(this.#outputs).map(
      ([stream, { nextOffset }]) => [stream, String(nextOffset)] as const,
    );
    let failure: Error | null = null;
    const socket = openAttachSocket(
      connection,
      this.runId,
      { as: "caller", ...bellQuery(), ...Object.fromEntries(offsets) },
      (error) => {
        // Terminating the socket raises an error that is not the cause.
        failure ??= error;
        socket.terminate();
      },
    );
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    socket.on("message", (data: Buffer, binary: boolean) => this.#onMessage(socket, data, binary));
    const code = await closed;
    if (this.#socket !== null) this.#options.onAttached();
    this.#socket = null;
    this.#stdin.detach();
    for (const output of Object.values(this.#outputs)) if (code !== CLOSE_COMPLETE) output.discard();
    if (failure !== null && !isRetryable(failure)) throw failure as Error;
    if (code === POLICY_VIOLATION)
      throw new HoldfastError(
        "UNAUTHORIZED",
        `run ${this.runId} is no longer visible to this session; it continues under its gateway`,
      );
    return code;
  }

  #onMessage(socket: WebSocket, data: Buffer, binary: boolean): void {
    if (binary) {
      const { stream, offset, bytes } = decodeFrame(data);
      if (stream !== "stdin") this.#outputs[stream].push(offset, bytes);
      return;
    }
    const message = JSON.parse(data.toString("utf8")) as AttachServerMessage;
    switch (message.type) {
      case "attached":
        this.#setState(message.state);
        return this.#onAttached(socket, message.accepted);
      case "accepted":
        return this.#stdin.acknowledge(message.offset);
      case "unread":
        return this.#stdin.reject(message.message);
      case "state":
        this.#setState(message.state);
        this.survivors = message.survivors;
        if (this.service === null && message.service !== null) this.#options.onAdopted();
        this.service = message.service;
        return;
      case "ended":
        this.#stopAcknowledged.resolve();
        if (message.record === null) return;
        // A gateway of an earlier version does not send it.
        return this.#ended.resolve({ record: message.record, recordPending: message.recordPending ?? null });
      case "bell":
        return ringBell();
      case "refused":
        // A resize or an end of input that came too late.
        return;
    }
  }

  #onAttached(socket: WebSocket, accepted: number): void {
    this.#socket = socket;
    this.#options.onAttached();
    // Acknowledgements may have been lost with the last gateway, and the command may wait for them.
    for (const stream of ["stdout", "stderr"] as const)
      this.#send({ type: "ack", stream, offset: this.#outputs[stream].writtenOffset });
    if (this.#size !== null) this.#send({ type: "resize", ...this.#size });
    for (const stop of this.#requestedStops) this.#send(stop);
    this.#stdin.attach(
      {
        send: (offset, bytes) => socket.send(encodeFrame("stdin", offset, bytes)),
        end: () => this.#send({ type: "eof" }),
      },
      accepted,
    );
  }

  #send(message: AttachClientMessage): void {
    this.#socket?.send(JSON.stringify(message));
  }
}

/** The close code of a run that the requester may not see any more. */
const POLICY_VIOLATION = 1008;

function isRetryable(error: Error): boolean {
  return (
    error instanceof GatewayUnreachable || (error instanceof HoldfastError && RETRYABLE_CODES.has(error.code))
  );
}
