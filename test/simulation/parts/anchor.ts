import type {
  AnchorLink,
  FirstStop,
  LeaderStatus,
  StartSpec,
  StopRequest,
} from "../../../src/anchor/host-interface.js";
import { exitMessage, NO_SUCH_COMMAND, STDIN_LIMIT, welcomeMessage } from "./anchor-messages.js";
import { SimulatedAnchorProcess } from "./anchor-process.js";
import { SimulatedDeadlines, SimulatedTermination } from "./anchor-timing.js";
import { type AnchorCommand, type AnchorEndpoint, SimulatedConnection } from "./connection.js";
import { endProcess } from "./machine.js";

/** The contract of `docs/reference/anchor-protocol.md` as a state machine: one anchor with one run. */
export class SimulatedAnchor extends SimulatedAnchorProcess implements AnchorEndpoint {
  readonly connections = new Set<SimulatedConnection>();
  owner: SimulatedConnection | null = null;
  highestEpoch = 0;
  executed = false;
  firstStop: FirstStop | null = null;
  launcherLost = false;
  #gateClosed = false;
  leader: LeaderStatus | null = null;
  leaderDone = false;
  #deadlines: SimulatedDeadlines;
  termination: SimulatedTermination;
  /** True until START: the anchor leaves nothing if its owner or its child ends. */
  warm = false;
  onDiscard: () => void = () => undefined;
  #settleAt = 0;
  onBegin: () => void = () => undefined;
  outputBytes = 0;
  stdinBytes = 0;
  #finished = false;
  #cancelAlarm: () => void = () => undefined;

  constructor(...where: ConstructorParameters<typeof SimulatedAnchorProcess>) {
    super(...where);
    this.#deadlines = new SimulatedDeadlines(this.spec.policy);
    this.termination = new SimulatedTermination(this.world, this);
    this.root.onDeath = (by) => this.world.scheduler.post(this, () => this.#leaderEnded(by));
    this.process.onDeath = () => this.#gone();
    this.directory.anchor = this;
  }

  /** Since the command was executed. */
  get elapsedMs(): number {
    return this.executed ? this.place.machine.monotonic - this.#deadlines.executedAt : 0;
  }

  /** When a deadline is due, on this machine's clock and without the backstop. Null: none is running. */
  deadline(): number | null {
    return this.isRunning ? this.#deadlines.dueAt() : null;
  }

  /** True if its run may end by itself. */
  mayEnd(): boolean {
    return this.due(true) !== null;
  }

  /** When and why its run is to end, by its own state. Null: it is not to end. */
  due(ownerGone: boolean): { readonly at: number; readonly reason: string } | null {
    if (this.firstStop !== null) return { at: 0, reason: this.firstStop.reason };
    if (!this.isRunning) return null;
    return this.#deadlines.due(ownerGone, this.owner === null, this.place.machine.monotonic);
  }

  get isRunning(): boolean {
    return this.executed && this.firstStop === null && !this.leaderDone;
  }

  /** HELLO, or the connection of START. Null: refused, because a higher epoch is known. */
  connect(
    by: SimulatedConnection["by"],
    epoch: number,
    opened: (link: AnchorLink) => void,
  ): SimulatedConnection | null {
    if (epoch !== 0 && epoch <= this.highestEpoch && this.world.flaws.anyEpoch !== true) return null;
    const connection = new SimulatedConnection(this.world.scheduler, this, by, epoch);
    this.connections.add(connection);
    if (this.warm) this.owner = connection;
    if (epoch !== 0) {
      const former = this.owner;
      this.world.watch.owned(this, epoch);
      this.highestEpoch = Math.max(epoch, this.highestEpoch);
      this.owner = connection;
      if (former !== null && this.world.flaws.anyEpoch !== true) this.#drop(former);
    }
    connection.welcome(welcomeMessage(this), opened);
    this.advance();
    return connection;
  }

  receive(connection: SimulatedConnection, command: AnchorCommand): void {
    if (!this.connections.has(connection)) return;
    if (command.type === "start") return this.#begin(connection, command.spec);
    if (command.type === "stop") {
      this.stop(command.stop);
      if (this.firstStop !== null) connection.tell({ type: "stopping", stop: this.firstStop });
      return this.advance();
    }
    if (command.type === "status") {
      connection.tell({ type: "status", welcome: welcomeMessage(this) });
      return;
    }
    if (connection !== this.owner && this.world.flaws.anyEpoch !== true)
      return connection.tell({ type: "refused", code: "not-owner", message: "", epoch: this.highestEpoch });
    this.world.watch.steered(this, connection.epoch, command.type);
    this.#obey(connection, command);
    this.advance();
  }

  hungUp(connection: SimulatedConnection): void {
    if (!this.connections.delete(connection) || connection !== this.owner) return;
    this.world.note(() => `anchor of ${this.alias}: its owner (epoch ${connection.epoch}) is gone`);
    this.owner = null;
    if (this.warm) return this.#discard(connection.startHasBegun);
    this.#deadlines.ownerLostAt = this.place.machine.monotonic;
    this.#closeGate();
    this.advance();
  }

  /** Handles START of a warm anchor: its directory gets the name of a run. */
  #begin(connection: SimulatedConnection, spec: StartSpec): void {
    if (!this.warm || this.gone) return;
    this.warm = false;
    this.spec = spec;
    this.root.ignoresTerm = spec.argv.includes("ignore-term");
    this.#deadlines = new SimulatedDeadlines(spec.policy);
    this.termination = new SimulatedTermination(this.world, this);
    this.highestEpoch = spec.epoch;
    this.world.watch.owned(this, spec.epoch);
    connection.epoch = spec.epoch;
    this.onDiscard();
    this.onBegin();
    this.world.note(() => `anchor of ${this.alias}: START`);
  }

  /** If START has begun, the directory stays: the run may be on record. */
  #discard(startHasBegun = false): void {
    if (this.gone) return;
    this.world.note(() => `anchor of ${this.alias}: it is not needed any more`);
    endProcess(this.world, this.root, null);
    if (this.cgroup !== null) this.place.machine.removeCgroup(this.cgroup);
    if (!startHasBegun) this.onDiscard();
    endProcess(this.world, this.process, null);
  }

  /** The first reason counts; a later stop can only shorten the grace period. */
  stop({ reason, actor, requestId, graceMs }: StopRequest): void {
    if (graceMs !== null) this.termination.graceMs = Math.min(this.termination.graceMs, graceMs);
    if (this.leaderDone || this.firstStop !== null) return;
    this.firstStop = { reason, actor, requestId };
    this.directory.firstStop = this.firstStop;
    this.world.note(() => `anchor of ${this.alias}: stop, ${reason}`);
    this.world.watch.stopped(this, reason);
    for (const each of this.connections) each.tell({ type: "stopping", stop: this.firstStop });
  }

  /** The command prints `bytes` bytes. */
  output(bytes: number): void {
    this.outputBytes += bytes;
    this.#deadlines.outputAt = this.place.machine.monotonic;
    const range = { start: 0, end: this.outputBytes, dropped: 0, closed: false };
    this.owner?.tell({ type: "output", stream: "stdout", ...range });
    this.advance();
  }

  /** Does what is due now, and sets an alarm for the next step. */
  advance(): void {
    if (this.gone || this.#finished || this.warm) return;
    const now = this.place.machine.monotonic;
    if (this.firstStop !== null) this.#closeGate();
    const overdue = this.isRunning ? this.#deadlines.overdue(now, this.owner !== null) : null;
    if (overdue !== null) this.stop({ reason: overdue, actor: "anchor", requestId: "", graceMs: null });
    const stopping = this.firstStop !== null && !this.#gateClosed;
    const resting = this.leaderDone && now >= this.#settleAt;
    if ((stopping || resting) && this.members().length > 0) this.termination.begin(now);
    this.termination.sweep(now);
    const empty = this.members().length === 0 || this.world.flaws.anchorHopes === true;
    if (this.leaderDone && empty) return this.#finish();
    this.#wakeAt(now);
  }

  #wakeAt(now: number): void {
    this.#cancelAlarm();
    const at = Math.min(
      this.isRunning ? this.#deadlines.wakeAt(this.owner !== null) : Infinity,
      this.leaderDone && !this.termination.begun ? this.#settleAt : Infinity,
      this.termination.nextSweepAt,
    );
    if (at < Infinity) this.#cancelAlarm = this.world.scheduler.after(this, at - now, () => this.advance());
  }

  #obey(
    connection: SimulatedConnection,
    command: Exclude<AnchorCommand, { type: "stop" | "status" | "start" }>,
  ): void {
    switch (command.type) {
      case "go":
        return this.#go(connection);
      case "write":
        if (command.offset > this.stdinBytes)
          return connection.tell({ type: "refused", code: "stdin-gap", message: "", epoch: null });
        this.stdinBytes = Math.max(this.stdinBytes, command.offset + command.length);
        return connection.tell({
          type: "stdin",
          accepted: this.stdinBytes,
          limit: STDIN_LIMIT,
          closed: false,
        });
      case "heartbeat":
        this.#deadlines.outputAt = this.place.machine.monotonic;
        return;
      case "abandon":
        return connection.tell({ type: "refused", code: "bad-phase", message: "", epoch: null });
      case "closeStdin":
      case "resize":
      case "ack":
      case "policy":
        return;
    }
  }

  #go(connection: SimulatedConnection): void {
    if (this.executed || this.#gateClosed || this.firstStop !== null || this.leaderDone)
      return connection.tell({ type: "refused", code: "bad-phase", message: "", epoch: null });
    if (this.spec.argv.includes("missing")) {
      connection.tell({ type: "failed", failure: NO_SUCH_COMMAND });
      this.#gateClosed = true;
      endProcess(this.world, this.root, null);
      return;
    }
    this.executed = true;
    this.root.leaseId = this.spec.env["HOLDFAST_LEASE_ID"] ?? null;
    this.#deadlines.executedAt = this.#deadlines.outputAt = this.place.machine.monotonic;
    this.world.note(() => `anchor of ${this.alias}: GO; its command runs as ${this.root.identity.pid}`);
    this.world.watch.executed(this);
    for (const each of this.connections) each.tell({ type: "started" });
  }

  /** The child ends without executing the command. */
  #closeGate(): void {
    if (this.executed || this.#gateClosed) return;
    this.#gateClosed = true;
    this.world.scheduler.post(this.place.machine, () => endProcess(this.world, this.root, null));
  }

  #leaderEnded(by: number | null): void {
    if (this.warm) return this.#discard();
    this.leaderDone = true;
    this.leader = by === null ? { code: 0, signal: null } : { code: null, signal: by };
    this.#settleAt = this.place.machine.monotonic + this.spec.policy.settleMs;
    if (this.executed) {
      for (const each of this.connections) each.tell({ type: "leader", status: this.leader });
      if (this.members().length > 0) this.directory.leader = this.leader;
    }
    this.advance();
  }

  /** Writes the exit file before the message: the anchor may be killed in between. */
  #finish(): void {
    this.#finished = true;
    this.#cancelAlarm();
    const exit = exitMessage(this);
    this.directory.exit = exit;
    if (this.cgroup !== null) this.place.machine.removeCgroup(this.cgroup);
    this.world.note(() => `anchor of ${this.alias}: wrote its end, ${exit.reason}`);
    this.world.scheduler.post(this, () => {
      for (const each of this.connections) {
        each.tell({ type: "exited", exit });
        each.drop();
      }
      this.connections.clear();
      endProcess(this.world, this.process, null);
    });
  }

  #gone(): void {
    this.#cancelAlarm();
    // The gate closes with the anchor.
    this.#closeGate();
    for (const each of this.connections) each.drop();
    this.connections.clear();
  }

  #drop(connection: SimulatedConnection): void {
    this.connections.delete(connection);
    connection.drop();
  }

  get tier(): string {
    const parts = [this.cgroup === null ? "subreaper" : "cgroup", ...(this.launcherLost ? [] : ["launcher"])];
    return [...parts, this.place.machine.hasUniqueIds ? "unique" : "handle"].join("+");
  }
}
