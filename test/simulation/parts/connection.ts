import type {
  AnchorEvent,
  AnchorLink,
  AnchorPolicy,
  StopRequest,
  StreamName,
  StartSpec,
  TerminalSize,
  Welcome,
} from "../../../src/anchor/host-interface.js";
import { OrderedQueue, type Actor, type Scheduler } from "../scheduler.js";

export type AnchorCommand =
  | { readonly type: "stop"; readonly stop: StopRequest }
  | { readonly type: "write"; readonly offset: number; readonly length: number }
  | { readonly type: "policy"; readonly change: Partial<AnchorPolicy> }
  | { readonly type: "status" }
  | { readonly type: "start"; readonly spec: StartSpec }
  | { readonly type: "go" | "closeStdin" | "resize" | "ack" | "heartbeat" | "abandon" };

/** The part of an anchor that a connection uses. */
export interface AnchorEndpoint extends Actor {
  receive(connection: SimulatedConnection, command: AnchorCommand): void;
  hungUp(connection: SimulatedConnection): void;
}

/** One socket between a supervisor (or another client with the key) and an anchor. Each direction keeps its order. */
export class SimulatedConnection {
  /** 0 for the connection of a warm anchor, until START. */
  epoch: number;
  readonly by: Actor & { readonly name: string };
  readonly #anchor: AnchorEndpoint;
  readonly #toAnchor: OrderedQueue;
  readonly #toSupervisor: OrderedQueue;
  #link: SimulatedLink | null = null;
  /** At the supervisor's end. */
  open = true;
  /** Part of START has reached the anchor. */
  startHasBegun = false;

  constructor(
    scheduler: Scheduler,
    anchor: AnchorEndpoint,
    by: Actor & { readonly name: string },
    epoch: number,
  ) {
    this.epoch = epoch;
    this.by = by;
    this.#anchor = anchor;
    this.#toAnchor = new OrderedQueue(scheduler, anchor);
    this.#toSupervisor = new OrderedQueue(scheduler, by);
  }

  /** The first thing the supervisor hears: it has a link. */
  welcome(welcome: Welcome, opened: (link: AnchorLink) => void): void {
    this.#toSupervisor.post(() => {
      this.#link = new SimulatedLink(this, welcome);
      opened(this.#link);
    });
  }

  /** The link of a run that gets this connection: from now on, events are kept for its listener. */
  renew(welcome: Welcome): AnchorLink {
    this.#link = new SimulatedLink(this, welcome);
    return this.#link;
  }

  tell(event: AnchorEvent): void {
    this.#toSupervisor.post(() => this.#link?.hear(event));
  }

  /** Closes the anchor's end: earlier messages still arrive. */
  drop(): void {
    this.#toSupervisor.post(() => this.#end());
  }

  send(command: AnchorCommand): void {
    if (!this.open) return;
    this.startHasBegun ||= command.type === "start";
    this.#toAnchor.post(() => this.#anchor.receive(this, command));
  }

  /** Closes the supervisor's end, also when its process ends: earlier messages still arrive. */
  hangUp(): void {
    if (!this.open) return;
    this.open = false;
    this.#toAnchor.post(() => this.#anchor.hungUp(this));
    this.#end();
  }

  /** The process at the supervisor's end is killed while it writes: what the socket had no room for is lost, even START. */
  cutOff(): void {
    this.#toAnchor.clear();
    // Also if it was closed before: the kernel closes the socket, whatever is lost.
    this.open = true;
    this.hangUp();
  }

  /** Loses the frames that are on their way, except START: a local socket delivers it before the end of the connection. */
  break(): void {
    if (this.epoch !== 0) this.#toAnchor.clear();
    // A client that has not seen the connection yet sees it open and close.
    if (this.#link !== null) this.#toSupervisor.clear();
    this.#toAnchor.post(() => this.#anchor.hungUp(this));
    this.#toSupervisor.post(() => this.#end());
  }

  #end(): void {
    this.open = false;
    this.#link?.hear({ type: "closed" });
  }
}

/** The supervisor's end. */
class SimulatedLink implements AnchorLink {
  readonly welcome: Welcome;
  readonly #connection: SimulatedConnection;
  readonly #waiting: AnchorEvent[] = [];
  #listener: ((event: AnchorEvent) => void) | null = null;
  #closed = false;

  constructor(connection: SimulatedConnection, welcome: Welcome) {
    this.#connection = connection;
    this.welcome = welcome;
  }

  hear(event: AnchorEvent): void {
    if (this.#closed) return;
    if (event.type === "closed") this.#closed = true;
    if (this.#listener === null) this.#waiting.push(event);
    else this.#listener(event);
  }

  listen(listener: (event: AnchorEvent) => void): void {
    this.#listener = listener;
    for (const event of this.#waiting.splice(0)) listener(event);
  }

  go(): void {
    this.#connection.send({ type: "go" });
  }

  stop(stop: StopRequest): void {
    this.#connection.send({ type: "stop", stop });
  }

  write(offset: number, data: Uint8Array): void {
    this.#connection.send({ type: "write", offset, length: data.length });
  }

  closeStdin(_offset: number): void {
    this.#connection.send({ type: "closeStdin" });
  }

  resize(_size: TerminalSize): void {
    this.#connection.send({ type: "resize" });
  }

  acknowledge(_stream: StreamName, _offset: number): void {
    this.#connection.send({ type: "ack" });
  }

  setPolicy(change: Partial<AnchorPolicy>): void {
    this.#connection.send({ type: "policy", change });
  }

  heartbeat(): void {
    this.#connection.send({ type: "heartbeat" });
  }

  adopt(): void {}

  signal(): void {}

  requestMembers(): void {}

  requestStatus(): void {
    this.#connection.send({ type: "status" });
  }

  abandon(): void {
    this.#connection.send({ type: "abandon" });
  }

  close(): void {
    this.#connection.hangUp();
  }
}
