import type { KnownAnchor, ProcessEvidence } from "../../../src/anchor/host-interface.js";
import type { MachineIdentity, ProcessIdentity } from "../../../src/model/process.js";
import type { Random } from "../random.js";
import type { Actor, Scheduler, Timebase } from "../scheduler.js";
import type { SimulatedWorld } from "../world.js";
import { processEvidence } from "../../support/supervisor/fake-host.js";

/** Numbers are few, so that they are soon used again. */
const FIRST_PID = 100;
const LAST_PID = 131;
/** Coarse, so that a number used twice within a tick is the rule rather than the exception. */
const TICK_MS = 30_000;
/** A number that was just freed is most likely the next: that is the case to be afraid of. */
const PID_REUSE_PROBABILITY = 0.5;

export interface SimulatedCgroup {
  readonly path: string;
  readonly inode: string;
  readonly instanceId: string;
  readonly runId: string;
  exists: boolean;
}

interface ProcessStart {
  readonly what: string;
  readonly parent: SimulatedProcess | null;
  readonly runId?: string;
  readonly leaseId?: string | null;
  readonly cgroup?: SimulatedCgroup | null;
  readonly newSession?: boolean;
  readonly subreaper?: boolean;
  readonly directoryOf?: string;
  /** Free: the next number, if it is to be this one. */
  readonly pid?: number;
}

/** A process with its true facts. */
export class SimulatedProcess {
  readonly place: SimulatedPidNamespace;
  readonly identity: ProcessIdentity;
  readonly what: string;
  /** The run it truly belongs to; undefined: a stranger, or one of Holdfast's own. */
  readonly runId: string | undefined;
  /** The marker in its environment, from its exec on. */
  leaseId: string | null;
  readonly cgroup: SimulatedCgroup | null;
  readonly session: SimulatedProcess;
  readonly subreaper: boolean;
  /** The run whose directory it has open, as its open descriptors show. Null: none. */
  readonly directoryOf: string | null;
  parent: SimulatedProcess | null;
  alive = true;
  ignoresTerm = false;
  /** In uninterruptible sleep: dies of a KILL only when it wakes. */
  stuck = false;
  doomed = false;
  onDeath: (signal: number | null) => void = () => undefined;

  constructor(place: SimulatedPidNamespace, identity: ProcessIdentity, birth: ProcessStart) {
    this.place = place;
    this.identity = identity;
    this.what = birth.what;
    this.runId = birth.runId;
    this.leaseId = birth.leaseId ?? null;
    this.cgroup = birth.cgroup ?? null;
    this.parent = birth.parent;
    this.session = birth.newSession === true || birth.parent === null ? this : birth.parent.session;
    this.subreaper = birth.subreaper ?? false;
    this.directoryOf = birth.directoryOf ?? null;
  }
}

/** One pid namespace of a machine: a process table. */
export class SimulatedPidNamespace {
  readonly machine: SimulatedMachine;
  /** Another one after the container was restarted. */
  pidNamespace: string;
  readonly processes = new Map<number, SimulatedProcess>();
  readonly #freed: number[] = [];

  constructor(machine: SimulatedMachine, pidNamespace: string) {
    this.machine = machine;
    this.pidNamespace = pidNamespace;
  }

  get identity(): MachineIdentity {
    const { hostId, bootId } = this.machine;
    return { hostId, bootId, pidNamespace: this.pidNamespace, timeNamespace: null };
  }

  bear(birth: ProcessStart): SimulatedProcess {
    const { hasUniqueIds, monotonic } = this.machine;
    const pid = birth.pid ?? this.#freePid();
    const uniqueId = hasUniqueIds ? String(++this.machine.births) : null;
    const identity = { pid, startTime: Math.floor(monotonic / TICK_MS), uniqueId };
    const born = new SimulatedProcess(this, identity, birth);
    this.processes.set(pid, born);
    return born;
  }

  #freePid(): number {
    const { random } = this.machine;
    const freed = this.#freed.filter((each) => !this.processes.has(each));
    if (freed.length > 0 && random.chance(PID_REUSE_PROBABILITY)) return random.pick(freed);
    let pid = random.between(FIRST_PID, LAST_PID);
    // A machine full of processes has higher numbers too.
    while (this.processes.has(pid)) pid = pid === LAST_PID ? LAST_PID + 1 : pid + 1;
    return pid;
  }

  /** The process is gone; its children fall to the next subreaper above. */
  bury(process: SimulatedProcess, signal: number | null): void {
    if (!process.alive) return;
    process.alive = false;
    this.processes.delete(process.identity.pid);
    this.#freed.push(process.identity.pid);
    if (this.#freed.length > 4) this.#freed.shift();
    let heir = process.parent;
    while (heir !== null && !(heir.alive && heir.subreaper)) heir = heir.parent;
    for (const child of this.processes.values()) if (child.parent === process) child.parent = heir;
    process.onDeath(signal);
  }

  childrenOf(parent: SimulatedProcess): SimulatedProcess[] {
    return [...this.processes.values()].filter((each) => each.parent === parent);
  }

  descendantsOf(root: SimulatedProcess): SimulatedProcess[] {
    return this.childrenOf(root).flatMap((child) => [child, ...this.descendantsOf(child)]);
  }

  membersOf(cgroup: SimulatedCgroup): SimulatedProcess[] {
    return [...this.processes.values()].filter((each) => each.cgroup === cgroup);
  }

  ofRun(runId: string): SimulatedProcess[] {
    return [...this.processes.values()].filter((each) => each.runId === runId);
  }
}

/** One computer. Its kernel is an actor, which ends processes. */
export class SimulatedMachine implements Actor, Timebase {
  readonly random: Random;
  readonly hostId: string;
  readonly hasUniqueIds: boolean;
  readonly hasCgroups: boolean;
  readonly #scheduler: Scheduler;
  readonly places: SimulatedPidNamespace[] = [];
  readonly cgroups: SimulatedCgroup[] = [];
  readonly gone = false;
  readonly held = false;
  births = 0;
  boots = 1;
  /** How far the wall clock is off. */
  wallOffset = 1_700_000_000_000;
  /** Listing processes fails as a whole. */
  listingFails = false;
  #bootedAt = -100_000;

  constructor(
    scheduler: Scheduler,
    random: Random,
    options: { readonly hostId: string; readonly uniqueIds: boolean; readonly cgroups: boolean },
  ) {
    this.#scheduler = scheduler;
    this.random = random;
    this.hostId = options.hostId;
    this.hasUniqueIds = options.uniqueIds;
    this.hasCgroups = options.cgroups;
  }

  get timebase(): Timebase {
    return this;
  }

  get bootId(): string {
    return `${this.hostId}-boot-${this.boots}`;
  }

  get monotonic(): number {
    return this.#scheduler.now - this.#bootedAt;
  }

  get wall(): number {
    return this.#scheduler.now + this.wallOffset;
  }

  /** Null: cgroups are not to be had here. */
  makeCgroup(instanceId: string, runId: string): SimulatedCgroup | null {
    if (!this.hasCgroups) return null;
    const path = `/cgroup/${instanceId}/runs/${runId}`;
    const cgroup = { path, inode: String(++this.births), instanceId, runId, exists: true };
    this.cgroups.push(cgroup);
    return cgroup;
  }

  removeCgroup(cgroup: SimulatedCgroup): void {
    cgroup.exists = false;
    const at = this.cgroups.indexOf(cgroup);
    if (at >= 0) this.cgroups.splice(at, 1);
  }

  /** Time that does not count on this machine. */
  sleepThrough(ms: number): void {
    this.#bootedAt += ms;
  }

  /** All processes are gone, without a word; the monotonic clock begins anew. */
  reboot(): void {
    this.boots++;
    this.#bootedAt = this.#scheduler.now - this.random.between(0, 20_000);
    for (const cgroup of this.cgroups.splice(0)) cgroup.exists = false;
  }
}

/** The process that signals, and the run for which it does so. */
export interface SignalSender {
  readonly who: "anchor" | "launcher" | "reap";
  readonly runId: string | null;
  readonly place: SimulatedPidNamespace;
}

/** The only way a process is signalled by Holdfast. The true owner is known here, whatever the evidence said. */
export function sendSignal(
  world: SimulatedWorld,
  by: SignalSender,
  target: SimulatedProcess,
  what: "TERM" | "KILL",
): void {
  world.watch.signalled(by, target);
  if (!target.alive) return;
  world.note(() => `${by.who} sends ${what} to ${target.identity.pid} (${target.what})`);
  if (what === "TERM") {
    if (target.ignoresTerm || target.stuck) return;
    world.scheduler.post(target.place.machine, () => endProcess(world, target, 15));
    return;
  }
  if (target.stuck) target.doomed = true;
  else endProcess(world, target, 9);
}

/** An anchor by the evidence that the real one shows: without unique ids, its program and its open run directory. */
export function findAnchor(
  place: SimulatedPidNamespace,
  { identity, runId }: KnownAnchor,
  byProgram = false,
): SimulatedProcess | null {
  const found = place.processes.get(identity.pid);
  if (found?.what !== "anchor" || !matchesIdentity(found, identity)) return null;
  const unique = identity.uniqueId !== null && found.identity.uniqueId === identity.uniqueId;
  return unique || byProgram || found.directoryOf === runId ? found : null;
}

export function endProcess(world: SimulatedWorld, process: SimulatedProcess, by: number | null): void {
  if (!process.alive) return;
  world.note(
    () => `process ${process.identity.pid} (${process.what}) is gone${by === null ? "" : `, signal ${by}`}`,
  );
  process.place.bury(process, by);
}

/** The process that has the pid now, and whether it is the wanted one. */
export function evidenceOf(place: SimulatedPidNamespace, wanted: ProcessIdentity | number): ProcessEvidence {
  const asked = typeof wanted === "number" ? { pid: wanted, startTime: 0, uniqueId: null } : wanted;
  const found = place.processes.get(asked.pid);
  if (found === undefined)
    return processEvidence({ identity: asked, alive: false, matches: false, state: "" });
  const { identity, parent, session, cgroup, what, leaseId, runId } = found;
  return processEvidence({
    identity,
    matches: typeof wanted === "number" || matchesIdentity(found, wanted),
    parentPid: parent?.identity.pid ?? 1,
    processGroupId: asked.pid,
    sessionId: session.identity.pid,
    uid: 1000,
    cgroup: cgroup?.path ?? null,
    command: what,
    argv: [what],
    leaseId,
    runId: runId ?? null,
  });
}

export function matchesIdentity({ identity }: SimulatedProcess, wanted: ProcessIdentity): boolean {
  return (
    identity.startTime === wanted.startTime &&
    (wanted.uniqueId === null || identity.uniqueId === null || identity.uniqueId === wanted.uniqueId)
  );
}
