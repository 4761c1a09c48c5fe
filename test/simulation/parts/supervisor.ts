import type { LockState } from "../../../src/anchor/instance/hold-instance-locks.js";
import { defaults } from "../../../src/defaults.js";
import type { Problem, Supervisor } from "../../../src/supervisor/api.js";
import type { Clock } from "../../../src/async/clock.js";
import { createSupervisor } from "../../../src/supervisor/supervisor.js";
import type { SimulatedConnection } from "./connection.js";
import { SimulatedHost } from "./host.js";
import type { SimulatedPidNamespace } from "./machine.js";
import type { Actor } from "../scheduler.js";
import type { SimulatedInstance } from "./state-directory.js";
import { SimulatedStore, type StoreCall } from "./store.js";
import type { SimulatedWorld } from "../world.js";

/** One process of a supervisor, from its start to its end. The code in it is the real one. */
export class SimulatedSupervisor implements Actor {
  readonly name: string;
  readonly place: SimulatedPidNamespace;
  readonly connections = new Set<SimulatedConnection>();
  readonly problems: Problem[] = [];
  readonly supervisor: Supervisor;
  readonly #world: SimulatedWorld;
  readonly #instance: SimulatedInstance;
  readonly incarnation: number;
  gone = false;
  held = false;
  closing = false;

  constructor(
    world: SimulatedWorld,
    instance: SimulatedInstance,
    place: SimulatedPidNamespace,
    incarnation: number,
  ) {
    this.#world = world;
    this.#instance = instance;
    this.place = place;
    this.incarnation = incarnation;
    this.name = `${instance.instanceId}#${incarnation}`;
    // Until this moment it was free.
    instance.freeAt = world.watch.commits;
    instance.holder = this;
    this.supervisor = createSupervisor({
      store: new SimulatedStore(world.database, (question, work) => this.#askStore(question, work), {
        shared: world.machines.length > 1,
      }),
      host: new SimulatedHost(world, this, instance),
      clock: this.#clock(),
      instanceId: instance.instanceId,
      incarnation: this.name,
      locks: { check: () => this.#checkLock() },
      onTaken: () => {
        this.closing = true;
        this.end();
      },
      home: "/sim",
      onProblem: (problem) => {
        this.problems.push(problem);
        world.note(() => `${this.name} reports: ${problem.message}`);
      },
      onClosed: async () => this.end(),
    });
    void this.supervisor.recover().catch(() => undefined);
    this.#reconcileNow();
  }

  get timebase() {
    return this.place.machine;
  }

  get instanceId(): string {
    return this.#instance.instanceId;
  }

  /** SIGKILL, or its own last instruction: nothing of it happens any more. Its lock is free, its connections end. */
  end(): void {
    if (this.gone) return;
    const cut = this.#world.random.chance(0.3);
    for (const each of this.connections)
      if (cut) each.cutOff();
      else each.hangUp();
    this.connections.clear();
    this.gone = true;
    if (this.#instance.holder === this) this.#instance.holder = null;
    const { launcher } = this.#instance;
    if (launcher !== null) this.#world.scheduler.post(launcher, () => launcher.letGo(this));
  }

  hangUpAll(): void {
    for (const each of this.connections) each.hangUp();
    this.connections.clear();
  }

  /** Checks now, answers later. A lock file without a holder is created and locked again. */
  #checkLock(): Promise<LockState> {
    const { scheduler, flaws } = this.#world;
    return new Promise((resolve) => {
      scheduler.post(this.place.machine, () => {
        if (this.gone) return;
        const instance = this.#instance;
        const restored = instance.holder === null;
        if (restored) instance.holder = this;
        const held = instance.holder === this || flaws.blindToOwnLock === true;
        const state = restored ? "restored" : held ? "held" : "taken";
        scheduler.post(this, () => resolve(state));
      });
    });
  }

  #reconcileNow(): void {
    if (this.closing || this.gone) return;
    void this.supervisor.reconcile().catch(() => undefined);
    this.#world.scheduler.after(this, defaults.reconcileMs, () => this.#reconcileNow());
  }

  #clock(): Clock {
    const { machine } = this.place;
    const { scheduler } = this.#world;
    const actor = this.#world.flaws.wallClock === true ? this.#onWallTime() : this;
    return {
      now: () => actor.timebase.monotonic,
      wall: () => machine.wall,
      setTimer: (ms, call) => ({ cancel: scheduler.after(actor, ms, call) }),
      sleep: (ms, early) =>
        new Promise((resolve) => {
          const cancel = scheduler.after(actor, ms, resolve);
          const stop = (): void => {
            cancel();
            resolve();
          };
          early?.then(stop, stop);
        }),
      jitter: (ms) => ms,
    };
  }

  /** A bug to be found: this process, with its timers on the wall clock. */
  #onWallTime(): Actor {
    const isGone = (): boolean => this.gone;
    const isHeld = (): boolean => this.held;
    const { machine } = this.place;
    return {
      get gone() {
        return isGone();
      },
      get held() {
        return isHeld();
      },
      timebase: {
        get monotonic() {
          return machine.wall;
        },
      },
    };
  }

  /**
   * Applied at one moment, answered later. The request of a dead process to a server may have been applied, or
   * not; a file is written by the process itself.
   */
  #askStore<T>({ name, writes }: StoreCall, work: () => T): Promise<T> {
    const { scheduler, random, flaws } = this.#world;
    return new Promise<T>((resolve, reject) => {
      const early = flaws.earlyAnswer === true && name === "insertRun";
      if (early) scheduler.post(this, () => resolve(true as T));
      const { bootId } = this.place.machine;
      const apply = (): void => {
        if (this.place.machine.bootId !== bootId) return;
        if (this.gone && (this.#world.machines.length === 1 || random.chance(0.5))) return;
        const trouble = this.#world.storeTrouble;
        try {
          if (trouble === "refuse-all" || (trouble === "refuse-writes" && writes))
            throw new Error("the database is locked");
          const value = this.#world.watch.by(this, work);
          if (trouble === "uncertain" && writes) throw new Error("the disk would not sync");
          scheduler.post(this, () => resolve(value));
        } catch (error) {
          const failure = error instanceof Error ? error : new Error(String(error));
          scheduler.post(this, () => reject(failure));
        }
      };
      scheduler.post(this.place.machine, apply);
    });
  }
}
