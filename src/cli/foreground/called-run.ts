import { setTimeout } from "node:timers/promises";
import type { WebSocket } from "ws";
import type { Survivor, TerminalSize } from "../../anchor/host.js";
import { GatewayUnreachable, HoldfastError } from "../../errors.js";
import {
  ALL_SAID,
  frame,
  type FromViewer,
  TOLD_TO_STOP,
  type ToViewer,
  unframe,
} from "../../gateway/attach-frames.js";
import type { RunStateName, ServiceFacts } from "../../store/run-record.js";
import type { CancelOptions, FollowOptions, OutputChunk, RunEnding } from "../../supervisor/api.js";
import { deferred } from "../../supervisor/deferred.js";
import { bellQuery, ringBell } from "../gateway/bell.js";
import { openChannel } from "../gateway/channel.js";
import type { Connection } from "../gateway/connect.js";
import type { Outcome } from "../operator/cancel.js";
import type { ForegroundRun } from "./host.js";
import { Inflow } from "./inflow.js";
import { Outflow } from "./outflow.js";

export interface CallOptions {
  readonly runId: string;
  readonly connection: Connection;
  /** The next gateway; null: there will be none while the run lives. */
  readonly back: (onPurpose: boolean) => Promise<Connection | null>;
  /** A gateway has answered, and holds the run. */
  readonly attached: () => void;
  /** Told when that is so, and something of the run may be missing here. */
  readonly lost: () => void;
  /** A service was made of it. */
  readonly adopted: () => void;
  /** Stops the run without a gateway; null: nothing is known of it. `told` is called when its anchor has been. */
  readonly stopAlone: (graceMs: number | null, told: () => void) => Promise<Outcome | null>;
}

/** A gateway that lives says within a tenth of this that it stops the run. */
const HEEDED_MS = 1_000;

/** What a gateway says when it does not hold the run yet, or not any more: the next look tells. */
const NOT_NOW = new Set(["NOT_STEERING", "SUPERVISOR_CLOSED"]);

/**
 * A run in the gateway that belongs to this process. The connection may break, with or without the gateway: then it goes
 * on with the next one, where it was, byte for byte.
 */
export class CalledRun implements ForegroundRun {
  readonly runId: string;
  readonly #options: CallOptions;
  readonly #inflows = { stdout: new Inflow("stdout"), stderr: new Inflow("stderr") };
  readonly #outflow: Outflow;
  readonly #ended = deferred<RunEnding>();
  readonly #outOfSight = deferred<undefined>();
  /** The run is being stopped, for all that is known here. */
  readonly #stopping = deferred<void>();
  #channel: WebSocket | null = null;
  #state: RunStateName = "starting";
  #survivors: readonly Survivor[] = [];
  #service: ServiceFacts | null = null;
  #size: TerminalSize | null = null;
  /** What was asked for first, and what more: said again on every connection, for only the first counts. */
  #stops: Extract<FromViewer, { type: "stop" }>[] = [];
  #left = false;

  constructor(options: CallOptions) {
    this.runId = options.runId;
    this.#options = options;
    this.#outflow = new Outflow(options.runId);
    this.#ended.promise.catch(() => {});
    void this.#stay(options.connection);
  }

  get state(): RunStateName {
    return this.#state;
  }

  get survivors(): readonly Survivor[] {
    return this.#survivors;
  }

  get service(): ServiceFacts | null {
    return this.#service;
  }

  get outOfSight(): Promise<undefined> {
    return this.#outOfSight.promise;
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
    this.#stops.push(stop);
    const first = this.#stops.length === 1;
    this.#tell(stop);
    // It may hang, and its connection stay open. A stop that comes twice is one.
    if (this.#channel !== null && first && (await this.#heeded())) return;
    const found = await this.#options.stopAlone(graceMs ?? null, () => this.#now("exiting"));
    if (found?.outcome === "survivors") this.#survivors = found.survivors;
    if (found?.outcome === "gone" || found?.outcome === "ended-before") this.#now("exited");
  }

  write(data: Uint8Array | string): Promise<void> {
    return this.#outflow.write(typeof data === "string" ? Buffer.from(data) : data);
  }

  async closeStdin(): Promise<void> {
    this.#outflow.end();
  }

  resize(size: TerminalSize): void {
    this.#size = size;
    this.#tell({ type: "resize", ...size });
  }

  async *follow({ streams = [] }: FollowOptions = {}): AsyncGenerator<OutputChunk, void, undefined> {
    for (const stream of streams)
      yield* this.#inflows[stream].take((offset) => this.#tell({ type: "ack", stream, offset }));
  }

  /** Have nothing more to do with it. A run that goes on is then one whose caller has left. */
  leave(): void {
    this.#left = true;
    this.#channel?.terminate();
  }

  async #heeded(): Promise<boolean> {
    const enough = new AbortController();
    const late = setTimeout(HEEDED_MS, false, { signal: enough.signal }).catch(() => false);
    const heeded = await Promise.race([this.#stopping.promise.then(() => true), late]);
    enough.abort();
    return heeded;
  }

  /** What has been seen to be over stays so, though the next gateway may not know it yet. */
  #now(state: RunStateName): void {
    if (this.#state !== "exited") this.#state = state;
    if (state === "exiting" || state === "exited") this.#stopping.resolve();
  }

  async #stay(first: Connection): Promise<void> {
    try {
      for (let connection: Connection | null = first; connection !== null;) {
        const code = await this.#talk(connection);
        if (code === ALL_SAID || this.#left) return;
        connection = await this.#options.back(code === TOLD_TO_STOP);
      }
      this.#options.lost();
      this.#outOfSight.resolve(undefined);
    } catch (error) {
      this.#ended.reject(error);
    } finally {
      this.#outflow.refuse("the connection to its gateway is lost");
      for (const inflow of Object.values(this.#inflows)) inflow.end();
    }
  }

  /** One connection, until it is closed; why it was. Rejects when there is no point in another. */
  async #talk(connection: Connection): Promise<number> {
    const offsets = Object.entries(this.#inflows).map(
      ([stream, { next }]) => [stream, String(next)] as const,
    );
    let failure: Error | null = null;
    const channel = openChannel(
      connection,
      this.runId,
      { as: "caller", ...bellQuery(), ...Object.fromEntries(offsets) },
      (error) => {
        // Hanging up is an error, too, but not the reason.
        failure ??= error;
        channel.terminate();
      },
    );
    const closed = new Promise<number>((resolve) => channel.once("close", resolve));
    channel.on("message", (data: Buffer, binary: boolean) => this.#hear(channel, data, binary));
    const code = await closed;
    if (this.#channel !== null) this.#options.attached();
    this.#channel = null;
    this.#outflow.detach();
    for (const inflow of Object.values(this.#inflows)) if (code !== ALL_SAID) inflow.forget();
    if (failure !== null && !worthAnother(failure)) throw failure as Error;
    if (code === REFUSED)
      throw new HoldfastError(
        "UNAUTHORIZED",
        `run ${this.runId} may not be seen any more; it is left to the gateway`,
      );
    return code;
  }

  #hear(channel: WebSocket, data: Buffer, binary: boolean): void {
    if (binary) {
      const { stream, offset, bytes } = unframe(data);
      if (stream !== "stdin") this.#inflows[stream].arrive(offset, bytes);
      return;
    }
    const message = JSON.parse(data.toString("utf8")) as ToViewer;
    switch (message.type) {
      case "attached":
        this.#now(message.state);
        return this.#attached(channel, message.accepted);
      case "accepted":
        return this.#outflow.accepted(message.offset);
      case "unread":
        return this.#outflow.refuse(message.message);
      case "state":
        this.#now(message.state);
        this.#survivors = message.survivors;
        if (this.#service === null && message.service !== null) this.#options.adopted();
        this.#service = message.service;
        return;
      case "ended":
        this.#stopping.resolve();
        if (message.record === null) return;
        // A gateway of an older version does not say.
        return this.#ended.resolve({ record: message.record, recordPending: message.recordPending ?? null });
      case "bell":
        return ringBell();
      case "refused":
        // A size or an end of input that came too late.
        return;
    }
  }

  #attached(channel: WebSocket, accepted: number): void {
    this.#channel = channel;
    this.#options.attached();
    // The last word of what was written may have died with its gateway, and the command may be waiting for it.
    for (const stream of ["stdout", "stderr"] as const)
      this.#tell({ type: "ack", stream, offset: this.#inflows[stream].written });
    if (this.#size !== null) this.#tell({ type: "resize", ...this.#size });
    for (const stop of this.#stops) this.#tell(stop);
    this.#outflow.attach(
      {
        send: (offset, bytes) => channel.send(frame("stdin", offset, bytes)),
        end: () => this.#tell({ type: "eof" }),
      },
      accepted,
    );
  }

  #tell(message: FromViewer): void {
    this.#channel?.send(JSON.stringify(message));
  }
}

/** The run may not be seen any more. */
const REFUSED = 1008;

function worthAnother(error: Error): boolean {
  return error instanceof GatewayUnreachable || (error instanceof HoldfastError && NOT_NOW.has(error.code));
}
