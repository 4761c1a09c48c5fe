import type { MachineIdentity } from "../../src/anchor/host.js";
import type { ProcessIdentity } from "../../src/store/run-record.js";
import type { Random } from "./random.js";
import type { Actor, Scheduler, Timebase } from "./scheduler.js";

/** Numbers are few, so that they are soon used again. */
const FIRST_PID = 100;
const LAST_PID = 131;
/** Coarse, so that a number used twice within a tick is the rule rather than the exception. */
const TICK_MS = 30_000;
/** A number that was just freed is most likely the next: that is the case to be afraid of. */
const REUSE = 0.5;

export interface Cgroup {
  readonly path: string;
  readonly inode: string;
  readonly instanceId: string;
  readonly runId: string;
  exists: boolean;
}

export interface Birth {
  readonly what: string;
  readonly parent: Process | null;
  readonly runId?: string;
  readonly leaseId?: string | null;
  readonly cgroup?: Cgroup | null;
  readonly newSession?: boolean;
  readonly subreaper?: boolean;
  /** Free: the next number, if it is to be this one. */
  readonly pid?: number;
}

/** A process as it truly is. Only this file knows how it looks from outside. */
export class Process {
  readonly place: Place;
  readonly identity: ProcessIdentity;
  readonly what: string;
  /** The run it truly belongs to; undefined: a stranger, or one of Holdfast's own. */
  readonly runId: string | undefined;
  /** The marker in its environment, from its exec on. */
  leaseId: string | null;
  readonly cgroup: Cgroup | null;
  readonly session: Process;
  readonly subreaper: boolean;
  parent: Process | null;
  alive = true;
  ignoresTerm = false;
  /** In uninterruptible sleep: dies of a KILL only when it wakes. */
  stuck = false;
  doomed = false;
  onDeath: (signal: number | null) => void = () => undefined;

  constructor(place: Place, identity: ProcessIdentity, birth: Birth) {
    this.place = place;
    this.identity = identity;
    this.what = birth.what;
    this.runId = birth.runId;
    this.leaseId = birth.leaseId ?? null;
    this.cgroup = birth.cgroup ?? null;
    this.parent = birth.parent;
    this.session = birth.newSession === true || birth.parent === null ? this : birth.parent.session;
    this.subreaper = birth.subreaper ?? false;
  }
}

/** One pid namespace of a machine: a process table. */
export class Place {
  readonly machine: Machine;
  /** Another one after the container was restarted. */
  pidNamespace: string;
  readonly processes = new Map<number, Process>();
  readonly #freed: number[] = [];

  constructor(machine: Machine, pidNamespace: string) {
    this.machine = machine;
    this.pidNamespace = pidNamespace;
  }

  get identity(): MachineIdentity {
    const { hostId, bootId } = this.machine;
    return { hostId, bootId, pidNamespace: this.pidNamespace, timeNamespace: null };
  }

  bear(birth: Birth): Process {
    const { hasUniqueIds, monotonic } = this.machine;
    const pid = birth.pid ?? this.#freePid();
    const uniqueId = hasUniqueIds ? String(++this.machine.births) : null;
    const identity = { pid, startTime: Math.floor(monotonic / TICK_MS), uniqueId };
    const born = new Process(this, identity, birth);
    this.processes.set(pid, born);
    return born;
  }

  #freePid(): number {
    const { random } = this.machine;
    const freed = this.#freed.filter((each) => !this.processes.has(each));
    if (freed.length > 0 && random.chance(REUSE)) return random.pick(freed);
    let pid = random.between(FIRST_PID, LAST_PID);
    // A machine full of processes has higher numbers too.
    while (this.processes.has(pid)) pid = pid === LAST_PID ? LAST_PID + 1 : pid + 1;
    return pid;
  }

  /** The process is gone; its children fall to the next subreaper above. */
  bury(process: Process, signal: number | null): void {
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

  childrenOf(parent: Process): Process[] {
    return [...this.processes.values()].filter((each) => each.parent === parent);
  }

  descendantsOf(root: Process): Process[] {
    return this.childrenOf(root).flatMap((child) => [child, ...this.descendantsOf(child)]);
  }

  membersOf(cgroup: Cgroup): Process[] {
    return [...this.processes.values()].filter((each) => each.cgroup === cgroup);
  }

  ofRun(runId: string): Process[] {
    return [...this.processes.values()].filter((each) => each.runId === runId);
  }
}

/** One computer. Its kernel is an actor: what happens to processes by themselves happens to it. */
export class Machine implements Actor, Timebase {
  readonly random: Random;
  readonly hostId: string;
  readonly hasUniqueIds: boolean;
  readonly hasCgroups: boolean;
  readonly #scheduler: Scheduler;
  readonly places: Place[] = [];
  readonly cgroups: Cgroup[] = [];
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
  makeCgroup(instanceId: string, runId: string): Cgroup | null {
    if (!this.hasCgroups) return null;
    const path = `/cgroup/${instanceId}/runs/${runId}`;
    const cgroup = { path, inode: String(++this.births), instanceId, runId, exists: true };
    this.cgroups.push(cgroup);
    return cgroup;
  }

  removeCgroup(cgroup: Cgroup): void {
    cgroup.exists = false;
    const at = this.cgroups.indexOf(cgroup);
    if (at >= 0) this.cgroups.splice(at, 1);
  }

  /** Time that passes here counts for nobody. */
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
