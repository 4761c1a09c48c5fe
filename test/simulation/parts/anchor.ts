import type {
  AnchorLink,
  FirstStop,
  LeaderStatus,
  StartSpec,
  StopRequest,
} from "../../../src/anchor/host.js";
import type { Residue } from "../../../src/model/process.js";
import {
  exitMessage,
  NO_SUCH_COMMAND,
  STDIN_LIMIT,
  welcomeMessage,
  type AnchorState,
} from "./anchor-messages.js";
import { SimulatedConnection, type AnchorCommand, type AnchorEndpoint } from "./connection.js";
import type { SimulatedCgroup, SimulatedPidNamespace, SimulatedProcess } from "./machine.js";
import { endProcess, sendSignal } from "./signal.js";
import type { SimulatedRunDirectory } from "./state-directory.js";
import type { SimulatedWorld } from "../world.js";

const SWEEP_AGAIN_MS = 1_000;

/** The contract of `docs/reference/anchor-protocol.md`, as a state machine: one anchor, one run. */
export class SimulatedAnchor implements AnchorEndpoint {
  readonly name = "anchor";
  readonly runId: string;
  readonly spec: StartSpec;
  readonly place: SimulatedPidNamespace;
  readonly process: SimulatedProcess;
  readonly root: SimulatedProcess;
  readonly cgroup: SimulatedCgroup | null;
  readonly directory: SimulatedRunDirectory;
  readonly connections = new Set<SimulatedConnection>();
  readonly #world: SimulatedWorld;
  readonly #residue: Residue[] = [];
  owner: SimulatedConnection | null = null;
  highestEpoch = 0;
  executed = false;
  firstStop: FirstStop | null = null;
  /** Stopped by somebody: it answers nobody. */
  held = false;
  /** Held by a debugger: SIGCONT does not help. */
  traced = false;
  launcherLost = false;
  /** Its launcher begins to notice. */
  onHalt: () => void = () => undefined;
  #gateClosed = false;
  #leader: LeaderStatus | null = null;
  #leaderDone = false;
  #executedAt = 0;
  #outputAt = 0;
  #ownerLostAt = 0;
  #settleAt = 0;
  #graceMs: number;
  #terminatingSince: number | null = null;
  #sweepAt = 0;
  #escaped = false;
  #output = 0;
  #stdin = 0;
  #finished = false;
  #cancelAlarm: () => void = () => undefined;

  constructor(
    world: SimulatedWorld,
    directory: SimulatedRunDirectory,
    place: SimulatedPidNamespace,
    parent: SimulatedProcess,
    spec: StartSpec,
    instanceId: string,
  ) {
    this.#world = world;
    this.runId = spec.runId;
    this.spec = spec;
    this.place = place;
    this.directory = directory;
    this.#graceMs = spec.policy.graceMs;
    this.process = place.bear({ what: "anchor", parent, newSession: true, subreaper: true });
    this.cgroup = place.machine.makeCgroup(instanceId, spec.runId);
    const { runId } = spec;
    this.root = place.bear({
      what: "root",
      parent: this.process,
      newSession: true,
      runId,
      cgroup: this.cgroup,
    });
    this.root.ignoresTerm = spec.argv.includes("ignore-term");
    this.root.onDeath = (by) => world.scheduler.post(this, () => this.#leaderEnded(by));
    this.process.onDeath = () => this.#gone();
    directory.anchor = this;
  }

  get gone(): boolean {
    return !this.process.alive;
  }

  get timebase() {
    return this.place.machine;
  }

  /** Since the command was executed. */
  get elapsedMs(): number {
    return this.executed ? this.place.machine.monotonic - this.#executedAt : 0;
  }

  get leaderDone(): boolean {
    return this.#leaderDone;
  }

  /** Everyone of its run it can see: below it, or in its cgroup. */
  members(): SimulatedProcess[] {
    const below = this.place.descendantsOf(this.process);
    const inside = this.cgroup === null ? [] : this.place.membersOf(this.cgroup);
    return [...new Set([...below, ...inside])];
  }

  /** When each deadline is due, by this machine's clock; the backstop not counted. Null: none is running. */
  deadline(): number | null {
    if (!this.executed || this.firstStop !== null || this.#leaderDone) return null;
    const { overallMs, noOutputMs } = this.spec.policy;
    const due = [
      ...(overallMs === null ? [] : [this.#executedAt + overallMs]),
      ...(noOutputMs === null ? [] : [this.#outputAt + noOutputMs]),
    ];
    return due.length === 0 ? null : Math.min(...due);
  }

  /** HELLO, or START's own connection. Null: refused, a higher epoch has been here. */
  connect(
    by: SimulatedConnection["by"],
    epoch: number,
    opened: (link: AnchorLink) => void,
  ): SimulatedConnection | null {
    if (epoch !== 0 && epoch <= this.highestEpoch && this.#world.flaws.anyEpoch !== true) return null;
    const connection = new SimulatedConnection(this.#world.scheduler, this, by, epoch);
    this.connections.add(connection);
    if (epoch !== 0) {
      const former = this.owner;
      this.#world.watch.owned(this, epoch);
      this.highestEpoch = Math.max(epoch, this.highestEpoch);
      this.owner = connection;
      if (former !== null && this.#world.flaws.anyEpoch !== true) this.#drop(former);
    }
    connection.welcome(welcomeMessage(this.#facts), opened);
    this.advance();
    return connection;
  }

  receive(connection: SimulatedConnection, command: AnchorCommand): void {
    if (!this.connections.has(connection)) return;
    if (command.type === "stop") {
      this.stop(command.stop);
      if (this.firstStop !== null) connection.tell({ type: "stopping", stop: this.firstStop });
      return this.advance();
    }
    if (command.type === "status") {
      connection.tell({ type: "status", welcome: welcomeMessage(this.#facts) });
      return;
    }
    if (connection !== this.owner && this.#world.flaws.anyEpoch !== true)
      return connection.tell({ type: "refused", code: "not-owner", message: "", epoch: this.highestEpoch });
    this.#world.watch.steered(this, connection.epoch, command.type);
    this.#obey(connection, command);
    this.advance();
  }

  hungUp(connection: SimulatedConnection): void {
    if (!this.connections.delete(connection) || connection !== this.owner) return;
    this.#world.note(() => `anchor of ${this.#alias}: its owner (epoch ${connection.epoch}) is gone`);
    this.owner = null;
    this.#ownerLostAt = this.place.machine.monotonic;
    this.#closeGate();
    this.advance();
  }

  /** Monotone: the first reason wins, a later stop can only shorten the grace. */
  stop({ reason, actor, requestId, graceMs }: StopRequest): void {
    if (graceMs !== null) this.#graceMs = Math.min(this.#graceMs, graceMs);
    if (this.#leaderDone || this.firstStop !== null) return;
    this.firstStop = { reason, actor, requestId };
    this.directory.firstStop = this.firstStop;
    this.#world.note(() => `anchor of ${this.#alias}: stop, ${reason}`);
    this.#world.watch.stopped(this, reason);
    for (const each of this.connections) each.tell({ type: "stopping", stop: this.firstStop });
  }

  /** SIGSTOP, or (`traced`) a debugger. */
  halt(traced: boolean): void {
    this.held = true;
    this.traced ||= traced;
    this.#world.note(() => `anchor of ${this.#alias} is ${traced ? "held by a debugger" : "stopped"}`);
    this.onHalt();
  }

  /** Whatever held it lets go. */
  release(): void {
    this.traced = false;
    this.held = false;
  }

  /** SIGCONT. */
  continue(): void {
    if (!this.held || this.traced) return;
    this.#world.note(() => `anchor of ${this.#alias} is continued`);
    this.held = false;
  }

  /** Some end of it may be due within a while. */
  mayEnd(): boolean {
    return this.due(true) !== null;
  }

  /** When and why its run is to end, by what it knew when it last ran. Null: it is not to. */
  due(ownerGone: boolean): { readonly at: number; readonly reason: string } | null {
    const { kind, ownerLossMs } = this.spec.policy;
    if (this.firstStop !== null) return { at: 0, reason: this.firstStop.reason };
    const at = this.deadline();
    if (at !== null) {
      const { overallMs } = this.spec.policy;
      const isOverall = overallMs !== null && at === this.#executedAt + overallMs;
      return { at, reason: isOverall ? "overall-timeout" : "no-output-timeout" };
    }
    if (kind === "service" || !this.executed || this.#leaderDone || !ownerGone) return null;
    // Somebody who looks every two seconds knows when it was lost; here it is enough that it was.
    return {
      at: (this.owner === null ? this.#ownerLostAt : this.place.machine.monotonic) + ownerLossMs,
      reason: "owner-lost",
    };
  }

  /** The command says something. */
  output(bytes: number): void {
    this.#output += bytes;
    this.#outputAt = this.place.machine.monotonic;
    const range = { start: 0, end: this.#output, dropped: 0, closed: false };
    this.owner?.tell({ type: "output", stream: "stdout", ...range });
    this.advance();
  }

  /** Do what is due now, and wake up when the next thing is. */
  advance(): void {
    if (this.gone || this.#finished) return;
    const now = this.place.machine.monotonic;
    if (this.firstStop !== null) this.#closeGate();
    this.#enforce(now);
    const stopping = this.firstStop !== null && !this.#gateClosed;
    const resting = this.#leaderDone && now >= this.#settleAt;
    if (this.#terminatingSince === null && (stopping || resting) && this.members().length > 0)
      this.#terminate(now);
    this.#sweep(now);
    const empty = this.members().length === 0 || this.#world.flaws.anchorHopes === true;
    if (this.#leaderDone && empty) return this.#finish();
    this.#wakeAt(now);
  }

  #enforce(now: number): void {
    if (!this.executed || this.firstStop !== null || this.#leaderDone) return;
    const { overallMs, noOutputMs, backstopMs, kind, ownerLossMs } = this.spec.policy;
    const slack = this.owner === null ? 0 : backstopMs;
    const by = { actor: "anchor", requestId: "", graceMs: null };
    if (overallMs !== null && now >= this.#executedAt + overallMs + slack)
      this.stop({ reason: "overall-timeout", ...by });
    else if (noOutputMs !== null && now >= this.#outputAt + noOutputMs + slack)
      this.stop({ reason: "no-output-timeout", ...by });
    else if (this.owner === null && kind === "task" && now >= this.#ownerLostAt + ownerLossMs)
      this.stop({ reason: "owner-lost", ...by });
  }

  #terminate(now: number): void {
    this.#terminatingSince = now;
    for (const each of this.members()) {
      if (this.#leaderDone && each !== this.root) this.#noteResidue(each);
      sendSignal(this.#world, this.#signaller, each, "TERM");
    }
  }

  #noteResidue({ identity: { pid, startTime }, what, session }: SimulatedProcess): void {
    const kind = session === this.root.session ? "background" : "detached";
    this.#residue.push({ pid, startTime, kind, command: what });
    if (kind === "detached" && this.firstStop === null) this.#escaped = true;
  }

  #sweep(now: number): void {
    const since = this.#terminatingSince;
    if (since === null || now < since + this.#graceMs || now < this.#sweepAt) return;
    this.#sweepAt = now + SWEEP_AGAIN_MS;
    for (const each of this.members()) sendSignal(this.#world, this.#signaller, each, "KILL");
    const left = this.members();
    if (left.length === 0 || now < since + this.#graceMs + this.spec.policy.killReportMs) return;
    const survivors = left.map(({ identity: { pid, startTime }, what }) => {
      return { pid, startTime, kind: "unkillable", command: what };
    });
    for (const each of this.connections) each.tell({ type: "survivors", survivors });
  }

  #wakeAt(now: number): void {
    this.#cancelAlarm();
    let at = Infinity;
    const sooner = (when: number): void => {
      at = Math.min(at, when);
    };
    if (this.executed && this.firstStop === null && !this.#leaderDone) {
      const { kind, ownerLossMs, backstopMs } = this.spec.policy;
      sooner((this.deadline() ?? Infinity) + (this.owner === null ? 0 : backstopMs));
      if (this.owner === null && kind === "task") sooner(this.#ownerLostAt + ownerLossMs);
    }
    if (this.#leaderDone && this.#terminatingSince === null) sooner(this.#settleAt);
    if (this.#terminatingSince !== null)
      sooner(Math.max(this.#terminatingSince + this.#graceMs, this.#sweepAt));
    if (at < Infinity) this.#cancelAlarm = this.#world.scheduler.after(this, at - now, () => this.advance());
  }

  #obey(connection: SimulatedConnection, command: Exclude<AnchorCommand, { type: "stop" | "status" }>): void {
    switch (command.type) {
      case "go":
        return this.#go(connection);
      case "write":
        if (command.offset > this.#stdin)
          return connection.tell({ type: "refused", code: "stdin-gap", message: "", epoch: null });
        this.#stdin = Math.max(this.#stdin, command.offset + command.length);
        return connection.tell({ type: "stdin", accepted: this.#stdin, limit: STDIN_LIMIT, closed: false });
      case "heartbeat":
        this.#outputAt = this.place.machine.monotonic;
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
    if (this.executed || this.#gateClosed || this.firstStop !== null || this.#leaderDone)
      return connection.tell({ type: "refused", code: "bad-phase", message: "", epoch: null });
    if (this.spec.argv.includes("missing")) {
      connection.tell({ type: "failed", failure: NO_SUCH_COMMAND });
      this.#gateClosed = true;
      endProcess(this.#world, this.root, null);
      return;
    }
    this.executed = true;
    this.root.leaseId = this.spec.env["HOLDFAST_LEASE_ID"] ?? null;
    this.#executedAt = this.#outputAt = this.place.machine.monotonic;
    this.#world.note(() => `anchor of ${this.#alias}: GO; its command runs as ${this.root.identity.pid}`);
    this.#world.watch.executed(this);
    for (const each of this.connections) each.tell({ type: "started" });
  }

  /** The child leaves by itself, without having run one instruction of the command. */
  #closeGate(): void {
    if (this.executed || this.#gateClosed) return;
    this.#gateClosed = true;
    this.#world.scheduler.post(this.place.machine, () => endProcess(this.#world, this.root, null));
  }

  #leaderEnded(by: number | null): void {
    this.#leaderDone = true;
    this.#leader = by === null ? { code: 0, signal: null } : { code: null, signal: by };
    this.#settleAt = this.place.machine.monotonic + this.spec.policy.settleMs;
    if (this.executed) {
      for (const each of this.connections) each.tell({ type: "leader", status: this.#leader });
      if (this.members().length > 0) this.directory.leader = this.#leader;
    }
    this.advance();
  }

  /** The end in the file first, then on the wire; somebody may kill it in between. */
  #finish(): void {
    this.#finished = true;
    this.#cancelAlarm();
    const exit = exitMessage(this.#facts);
    this.directory.exit = exit;
    if (this.cgroup !== null) this.place.machine.removeCgroup(this.cgroup);
    this.#world.note(() => `anchor of ${this.#alias}: wrote its end, ${exit.reason}`);
    this.#world.scheduler.post(this, () => {
      for (const each of this.connections) {
        each.tell({ type: "exited", exit });
        each.drop();
      }
      this.connections.clear();
      endProcess(this.#world, this.process, null);
    });
  }

  #gone(): void {
    this.#cancelAlarm();
    // The other end of the gate is closed with it.
    this.#closeGate();
    for (const each of this.connections) each.drop();
    this.connections.clear();
  }

  #drop(connection: SimulatedConnection): void {
    this.connections.delete(connection);
    connection.drop();
  }

  get #facts(): AnchorState {
    const { runId, spec, executed, firstStop, highestEpoch, elapsedMs, cgroup } = this;
    return {
      runId,
      spec,
      executed,
      firstStop,
      highestEpoch,
      elapsedMs,
      cgroup,
      root: this.root.identity,
      anchor: this.process.identity,
      leader: this.#leader,
      residue: this.#residue,
      escaped: this.#escaped,
      output: this.#output,
      stdin: this.#stdin,
      tier: this.#tier,
      wall: this.place.machine.wall,
    };
  }

  get #tier(): string {
    const parts = [this.cgroup === null ? "subreaper" : "cgroup", ...(this.launcherLost ? [] : ["launcher"])];
    return [...parts, this.place.machine.hasUniqueIds ? "unique" : "handle"].join("+");
  }

  get #alias(): string {
    return this.#world.watch.alias(this.runId);
  }

  get #signaller() {
    return { who: "anchor", runId: this.runId, place: this.place } as const;
  }
}
