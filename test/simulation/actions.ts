import { defaults } from "../../src/defaults.js";
import type { SpawnOptions } from "../../src/supervisor/api.js";
import type { Anchor } from "./anchor.js";
import type { Cast } from "./cast.js";
import { Connection } from "./connection.js";
import type { Process } from "./machine.js";
import type { RunTruth } from "./run-truth.js";
import { die } from "./signal.js";
import type { SupervisorProcess } from "./supervisor-process.js";

/** Runs per schedule: enough for them to meet, few enough to follow. */
const MOST_RUNS = 5;
const MOST_STRANGERS = 12;
const YEAR_MS = 365 * 24 * 3_600_000;

/** How often each is done, before a schedule has its own mind about it. */
const WEIGHTS = {
  spawn: 9,
  cancel: 4,
  stopByKey: 1,
  steer: 3,
  kill: 4,
  stop: 2.5,
  continue: 3,
  boot: 6,
  close: 0.7,
  killAnchor: 2.5,
  killLauncher: 1.5,
  usurp: 1,
  stopAnchor: 0.7,
  continueAnchor: 1.5,
  breakConnection: 4,
  exit: 4,
  fork: 4,
  daemonize: 2,
  output: 3,
  sticks: 0.3,
  wakes: 1,
  stranger: 4,
  strangerLeaves: 2,
  storeTrouble: 1.5,
  storeWell: 4,
  listingFails: 0.8,
  listingWorks: 3,
  suspend: 0.7,
  wallJumps: 1,
  reboot: 0.5,
  renewContainer: 0.5,
  tick: 12,
  moment: 5,
  lease: 2,
  outlast: 2,
  oversleep: 3,
  forget: 0.3,
  retain: 0.4,
  starve: 0.5,
};
/** Each schedule has its taste: what is done by all alike is soon done, what comes together rarely is found by whims. */
const WHIMS = [0.1, 0.5, 1, 1, 3, 6];

/** A cancel that was asked for: it must reach its anchor, whatever the store does. */
export interface Asked {
  readonly process: SupervisorProcess;
  readonly runId: string;
}

/** What a schedule may do. Each either does something or finds nothing to do it to. */
export class Actions {
  readonly #cast: Cast;
  readonly asked: Asked[] = [];
  readonly #weights: typeof WEIGHTS;
  readonly #serviceShare: number;
  #spawned = 0;

  constructor(cast: Cast) {
    this.#cast = cast;
    const { random } = cast.world;
    this.#weights = { ...WEIGHTS };
    for (const name of Object.keys(WEIGHTS) as (keyof typeof WEIGHTS)[])
      this.#weights[name] *= random.pick(WHIMS);
    this.#serviceShare = random.pick([0.1, 0.5, 0.9]);
  }

  get #world() {
    return this.#cast.world;
  }

  get #random() {
    return this.#cast.world.random;
  }

  async any(): Promise<void> {
    const { variant } = this.#world;
    const someoneStopped = this.#cast.alive.some(({ held }) => held);
    const name = this.#random.weighted({
      ...this.#weights,
      ...(this.#spawned === 0 ? { spawn: 60 } : {}),
      ...(someoneStopped ? {} : { outlast: 0 }),
      ...(variant.supervisors > 1 ? {} : { oversleep: 0 }),
      ...(variant.reboots ? {} : { reboot: 0 }),
      // Whose directory is on another machine is not for this one to forget.
      ...(variant.machines > 1 ? { retain: 0 } : {}),
      ...(variant.containers > 1 ? {} : { renewContainer: 0 }),
    });
    await this[name]();
  }

  spawn(): void {
    const process = this.#random.maybePick(this.#cast.awake);
    if (process === null || this.#spawned >= MOST_RUNS) return;
    this.#spawned++;
    const random = this.#random;
    const words = ["ignore-term", "missing", "no-fork"].filter((_, at) =>
      random.chance(at === 0 ? 0.3 : 0.03),
    );
    const options: SpawnOptions = {
      clearEnv: true,
      cwd: "/",
      kind: random.chance(this.#serviceShare) ? "service" : "task",
      onOrphan: random.chance(0.7) ? "adopt" : "terminate",
      onEscape: random.chance(0.5) ? "fail" : "sweep",
      timeoutMs: random.pick([0, 0, 0, 5_000, 40_000]),
      noOutputTimeoutMs: random.pick([0, 0, 0, 0, 8_000]),
      graceMs: random.pick([0, 300, 5_000]),
      ownerLossMs: random.pick([1_000, 20_000, defaults.ownerLossMs]),
    };
    this.#world.note(() => `${process.name} spawns ${words.join(" ")} ${JSON.stringify(options)}`);
    process.supervisor
      .spawn({ io: "pipe", argv: ["/bin/target", ...words] }, options)
      .catch((error: unknown) => this.#world.note(() => `${process.name}: spawn failed: ${String(error)}`));
  }

  cancel(): void {
    const held = this.#held();
    if (held === null) return;
    const { process, runId } = held;
    this.#world.note(() => `${process.name} cancels ${this.#world.watch.alias(runId)}`);
    this.asked.push(held);
    void process.supervisor
      .run(runId)
      ?.cancel({ actor: "test" })
      .catch(() => undefined);
  }

  /** Somebody with the key, and no store or supervisor at all. */
  stopByKey(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors);
    if (anchor === null) return;
    const by = { name: "key", gone: false, held: false, timebase: anchor.place.machine };
    const connection = anchor.connect(by, 0, () => undefined) ?? unreachable();
    connection.send({
      type: "stop",
      stop: { reason: "manual-cancel", actor: "key", requestId: "k", graceMs: null },
    });
    connection.hangUp();
  }

  steer(): void {
    const held = this.#held();
    const run = held?.process.supervisor.run(held.runId) ?? null;
    if (run === null) return;
    try {
      if (this.#random.chance(0.5)) void run.write("x").catch(() => undefined);
      else if (this.#random.chance(0.5)) run.heartbeat();
      else run.resize({ rows: 10, cols: 10 });
    } catch {
      // It says that it may not, which is the answer hoped for.
    }
  }

  kill(): void {
    const process = this.#random.maybePick(this.#cast.alive);
    if (process !== null) this.#cast.kill(process);
  }

  stop(): void {
    const process = this.#random.maybePick(this.#cast.awake);
    if (process === null) return;
    this.#world.note(() => `${process.name} is stopped`);
    process.held = true;
    this.#cast.hinder(process);
  }

  continue(): void {
    const process = this.#random.maybePick(this.#cast.alive.filter(({ held }) => held));
    if (process !== null) this.#wake(process);
  }

  continueAll(): void {
    for (const process of this.#cast.alive) if (process.held) this.#wake(process);
  }

  #wake(process: SupervisorProcess): void {
    this.#world.note(() => `${process.name} continues`);
    process.held = false;
    // With what it was about to do: it does not know yet how long it was away.
    for (const runId of this.#world.watch.runs.keys()) process.supervisor.run(runId)?.heartbeat();
  }

  boot(): void {
    const seat = this.#random.maybePick(this.#cast.down);
    if (seat !== null) this.#cast.boot(seat);
  }

  close(): void {
    const process = this.#random.maybePick(this.#cast.awake);
    if (process === null) return;
    process.closing = true;
    const leaveRuns = this.#random.chance(0.5);
    this.#world.note(() => `${process.name} closes${leaveRuns ? " and leaves its runs" : ""}`);
    void process.supervisor.close({ leaveRuns }).catch(() => undefined);
  }

  killAnchor(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors);
    if (anchor === null) return;
    this.#world.watch.truth(anchor.runId).anchorKilled = true;
    die(this.#world, anchor.process, 9);
  }

  killLauncher(): void {
    const seat = this.#random.pick(this.#cast.seats);
    const { launcher } = this.#world.directoryOf(seat.place.machine).instance(seat.instanceId);
    if (launcher !== null) die(this.#world, launcher.process, 9);
  }

  /** Everybody who could know dies at once, and somebody else has the number of one of them before anybody looks. */
  usurp(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors.filter(({ executed }) => executed));
    if (anchor === null) return;
    const { process, root, place } = anchor;
    this.#world.watch.truth(anchor.runId).anchorKilled = true;
    if (process.parent !== null && this.#random.chance(0.7)) die(this.#world, process.parent, 9);
    die(this.#world, process, 9);
    if (this.#random.chance(0.8)) die(this.#world, root, 9);
    const { pid } = this.#random.pick([process, root]).identity;
    if (!place.processes.has(pid))
      this.#cast.strangers.push(place.bear({ what: "stranger", parent: null, pid }));
  }

  stopAnchor(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors);
    if (anchor !== null) anchor.held = true;
  }

  continueAnchor(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors.filter(({ held }) => held));
    if (anchor !== null) anchor.held = false;
  }

  breakConnection(): void {
    const anchor = this.#random.maybePick(this.#cast.anchors);
    const connection = anchor && this.#random.maybePick([...anchor.connections]);
    if (!(connection instanceof Connection)) return;
    this.#world.note(() => `a connection of ${connection.by.name} breaks`);
    connection.break();
  }

  exit(): void {
    const target = this.#target();
    if (target !== null) die(this.#world, target.process, null);
  }

  fork(): void {
    this.#bear(false);
  }

  daemonize(): void {
    this.#bear(true);
  }

  output(): void {
    const anchor = this.#random.maybePick(
      this.#cast.anchors.filter(({ executed, held }) => executed && !held),
    );
    anchor?.output(this.#random.between(1, 100));
  }

  sticks(): void {
    const target = this.#target();
    if (target === null) return;
    target.process.stuck = true;
    this.#world.watch.truth(target.anchor.runId).wasStuck = true;
  }

  wakes(): void {
    for (const { anchor } of this.#world.watch.runs.values())
      for (const process of anchor?.place.ofRun(anchor.runId) ?? []) {
        process.stuck = false;
        if (process.doomed) die(this.#world, process, 9);
      }
  }

  stranger(): void {
    if (this.#cast.strangers.length >= MOST_STRANGERS) return;
    for (let left = this.#random.between(1, 4); left > 0; left--)
      this.#cast.strangers.push(
        this.#random.pick(this.#world.places).bear({ what: "stranger", parent: null }),
      );
  }

  strangerLeaves(): void {
    const at = this.#random.below(this.#cast.strangers.length);
    const [gone] = this.#cast.strangers.splice(at, 1);
    if (gone !== undefined) die(this.#world, gone, null);
  }

  storeTrouble(): void {
    this.#world.storeTrouble = this.#random.pick(["refuse-writes", "refuse-all", "uncertain"] as const);
    for (const process of this.#cast.alive) this.#cast.hinder(process);
    this.#world.note(() => `the store is in trouble: ${this.#world.storeTrouble}`);
  }

  storeWell(): void {
    this.#world.storeTrouble = null;
  }

  listingFails(): void {
    this.#random.pick(this.#world.machines).listingFails = true;
  }

  listingWorks(): void {
    for (const machine of this.#world.machines) machine.listingFails = false;
  }

  /** A machine sleeps; to the others, and to a store with a clock of its own, time goes on. */
  suspend(): void {
    const machine = this.#random.pick(this.#world.machines);
    // A server's clock goes on: a sleep as long as `stalledOwnerMs` looks like a stalled owner to whoever wakes first.
    const longest = this.#world.machines.length > 1 ? 60_000 : 600_000;
    const ms = this.#random.pick([10_000, 60_000, longest]);
    this.#world.note(() => `${machine.hostId} sleeps for ${ms} ms`);
    machine.sleepThrough(ms);
    this.#world.scheduler.now += ms;
    for (const process of this.#cast.alive) if (process.place.machine !== machine) this.#cast.hinder(process);
  }

  wallJumps(): void {
    const machine = this.#random.pick(this.#world.machines);
    machine.wallOffset += this.#random.chance(0.5) ? YEAR_MS : -YEAR_MS;
    this.#world.note(() => `the wall clock of ${machine.hostId} jumps`);
  }

  reboot(): void {
    this.#cast.reboot(this.#random.pick(this.#world.machines));
  }

  renewContainer(): void {
    this.#cast.renew(this.#random.pick(this.#world.places));
  }

  /** Time goes to the next alarm, which may ring. */
  tick(): void {
    const next = this.#world.scheduler.nextAlarm();
    if (next !== null && next > 0) this.#world.scheduler.now += next;
  }

  moment(): void {
    this.#world.scheduler.now += this.#random.pick([10, 100, 1_000, 3_000]);
  }

  async lease(): Promise<void> {
    const ms = this.#random.pick([5_000, 12_000, defaults.leaseMs + 1_000]);
    this.#world.note(() => `${ms} ms pass`);
    await this.#world.scheduler.pass(ms);
  }

  /** Longer than anybody waits for somebody who is stopped. */
  async outlast(): Promise<void> {
    if (this.#cast.awake.length === 0 || !this.#cast.alive.some(({ held }) => held)) return;
    this.#world.note(() => "a stopped supervisor is outlasted");
    await this.#world.scheduler.pass(defaults.leaseMs + defaults.stalledOwnerMs + 1_000);
  }

  /** Stopped with a run in its hands, for so long that it is taken away; then it goes on where it was. */
  async oversleep(): Promise<void> {
    const held = this.#held(({ anchor, stoppedAt }) => anchor?.executed === true && stoppedAt === null);
    if (held === null || this.#cast.awake.length === 1) return;
    const { process } = held;
    this.storeWell();
    this.#world.note(() => `${process.name} oversleeps`);
    process.held = true;
    this.#cast.hinder(process);
    const { scheduler } = this.#world;
    const stalledMs = defaults.leaseMs + defaults.stalledOwnerMs;
    if (this.#random.chance(0.5)) await scheduler.pass(stalledMs + 2 * defaults.reconcileMs);
    else {
      // In the very moment in which it is being taken away.
      await scheduler.pass(stalledMs - defaults.reconcileMs);
      for (let left = this.#random.between(1, 80); left > 0; left--)
        if (!(await scheduler.deliverOne())) this.tick();
    }
    this.#wake(process);
  }

  /** The store is replaced by one that does not know a run. */
  forget(): void {
    const { database, watch } = this.#world;
    const runId = this.#random.maybePick([...database.records.keys()]);
    if (runId === null) return;
    this.#world.note(() => `the record of ${watch.alias(runId)} is gone`);
    database.records.delete(runId);
    const truth = watch.truth(runId);
    truth.forgotten = true;
    truth.exitEvents = 0;
  }

  /** Ended runs are forgotten as if there were too many. */
  retain(): void {
    const process = this.#random.maybePick(this.#cast.awake);
    this.#world.note(() => `${process?.name} forgets ended runs`);
    void process?.supervisor.retain({ endedKept: 0 }).catch(() => undefined);
  }

  /** Nobody gets to do anything for a long time. */
  starve(): void {
    const ms = this.#random.pick([defaults.leaseMs + 1_000, defaults.stalledOwnerMs + 1_000, 3 * 3_600_000]);
    this.#world.note(() => `nobody gets to do anything for ${ms} ms`);
    for (const process of this.#cast.alive) this.#cast.hinder(process);
    this.#world.scheduler.now += ms;
  }

  #held(suits: (truth: RunTruth) => boolean = () => true): Asked | null {
    const held = this.#cast.awake.flatMap((process) =>
      [...this.#world.watch.runs].flatMap(([runId, truth]) =>
        process.supervisor.run(runId) !== null && suits(truth) ? [{ process, runId }] : [],
      ),
    );
    return this.#random.maybePick(held);
  }

  #target(): { process: Process; anchor: Anchor } | null {
    const targets = [...this.#world.watch.runs.values()].flatMap(({ anchor }) =>
      anchor?.executed === true
        ? anchor.place.ofRun(anchor.runId).map((process) => ({ process, anchor }))
        : [],
    );
    return this.#random.maybePick(targets);
  }

  #bear(daemon: boolean): void {
    const target = this.#target();
    if (target === null || target.anchor.place.processes.size > 60) return;
    const { process, anchor } = target;
    const { runId, cgroup, leaseId, place } = process;
    const child = place.bear({
      what: daemon ? "daemon" : "child",
      parent: process,
      runId: runId ?? anchor.runId,
      cgroup,
      leaseId: this.#random.chance(0.2) ? null : leaseId,
      newSession: daemon,
    });
    child.ignoresTerm = this.#random.chance(0.3);
    child.onDeath = () => this.#world.scheduler.post(anchor, () => anchor.advance());
    if (!daemon) return;
    // Forked twice: the one in between is gone at once.
    let heir = process.parent;
    while (heir !== null && !(heir.alive && heir.subreaper)) heir = heir.parent;
    child.parent = heir;
  }
}

function unreachable(): never {
  throw new Error("an observer is never refused");
}
