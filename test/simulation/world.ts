import { SimulatedDatabase, type DatabaseBugs } from "./parts/database.js";
import { SimulatedMachine, SimulatedPidNamespace } from "./parts/machine.js";
import { Random } from "./random.js";
import { Scheduler } from "./scheduler.js";
import { SimulatedStateDirectory } from "./parts/state-directory.js";
import { InvariantMonitor } from "./invariant-monitor.js";

/** Bugs to be found: each breaks one promise of the parts the supervisor stands on. */
export interface PlantedBugs extends DatabaseBugs {
  /** An anchor obeys every connection. */
  readonly anyEpoch?: boolean;
  /** `insertRun` answers before it has written. */
  readonly earlyAnswer?: boolean;
  /** Signals the process that has the pid now. */
  readonly reapByNumber?: boolean;
  /** The anchor of another run passes for the recorded one: both execute the same program. */
  readonly anchorByProgram?: boolean;
  /** Says that the tree is empty without having looked. */
  readonly reapHopes?: boolean;
  /** Ends nothing below an anchor that does not answer. */
  readonly reapSparesSilent?: boolean;
  /** Silence of an anchor is reason enough to kill it. */
  readonly launcherImpatient?: boolean;
  /** A held lock counts as free. */
  readonly blindToLocks?: boolean;
  /** A process does not see that another holds its instance's lock. */
  readonly blindToOwnLock?: boolean;
  /** The launcher's word comes before its deed. */
  readonly launcherHopes?: boolean;
  /** The directory of a warm anchor looks like that of a run. */
  readonly warmLooksUsed?: boolean;
  /** A supervisor's clock is the wall's. */
  readonly wallClock?: boolean;
  /** An anchor reports the end of the leader as the end of the tree. */
  readonly anchorHopes?: boolean;
}

export interface SimulationVariant {
  readonly name: string;
  readonly cgroups: boolean;
  readonly uniqueIds: boolean;
  /** Supervisors per place. */
  readonly supervisors: number;
  readonly machines: number;
  /** Containers on the first machine that share its state directory. */
  readonly containers: number;
  readonly reboots: boolean;
}

/** Everything there is besides the supervisors, made from one seed. */
export class SimulatedWorld {
  readonly variant: SimulationVariant;
  readonly flaws: PlantedBugs;
  readonly random: Random;
  readonly scheduler: Scheduler;
  readonly machines: readonly SimulatedMachine[];
  readonly places: readonly SimulatedPidNamespace[];
  readonly database: SimulatedDatabase;
  readonly watch: InvariantMonitor;
  readonly #directories = new Map<SimulatedMachine, SimulatedStateDirectory>();
  /** `refuse`: nothing is applied. `uncertain`: it is, and yet an error comes back. */
  storeTrouble: "refuse-writes" | "refuse-all" | "uncertain" | null = null;
  /** Called for every step, if set. */
  tell: ((line: string) => void) | null = null;

  constructor(seed: number, variant: SimulationVariant, flaws: PlantedBugs = {}) {
    this.variant = variant;
    this.flaws = flaws;
    this.random = new Random(seed);
    this.scheduler = new Scheduler(this.random);
    const machines: SimulatedMachine[] = [];
    const places: SimulatedPidNamespace[] = [];
    for (let at = 0; at < variant.machines; at++) {
      const { uniqueIds, cgroups } = variant;
      const machine = new SimulatedMachine(this.scheduler, this.random, {
        hostId: `host-${at}`,
        uniqueIds,
        cgroups,
      });
      machines.push(machine);
      this.#directories.set(machine, new SimulatedStateDirectory());
      for (let box = 0; box < (at === 0 ? variant.containers : 1); box++) {
        const place = new SimulatedPidNamespace(machine, `pid:[${box}]`);
        machine.places.push(place);
        places.push(place);
      }
    }
    this.machines = machines;
    this.places = places;
    // One machine: its monotonic clock, like SQLite's. Several: a server of its own.
    const [first] = machines as [SimulatedMachine, ...SimulatedMachine[]];
    const clock = (): number => (machines.length === 1 ? first.monotonic : this.scheduler.now + 1_000_000);
    this.database = new SimulatedDatabase(clock, () => first.wall, flaws);
    this.watch = new InvariantMonitor(this);
    this.database.watch = (commit) => this.watch.committed(commit);
    this.database.watchEvent = (event) => this.watch.noted(event);
    this.scheduler.afterTurn = () => this.watch.raise();
  }

  directoryOf(machine: SimulatedMachine): SimulatedStateDirectory {
    const found = this.#directories.get(machine);
    if (found === undefined) throw new Error("a machine without a state directory");
    return found;
  }

  note(line: () => string): void {
    this.tell?.(`${String(this.scheduler.now).padStart(8)}  ${line()}`);
  }
}
