import type { Anchor } from "./anchor.js";
import type { Machine, Place, Process } from "./machine.js";
import { die } from "./signal.js";
import { SupervisorProcess } from "./supervisor-process.js";
import type { World } from "./world.js";

/** A supervisor's place in the world: its instance lasts, its processes come and go. */
export interface Seat {
  readonly instanceId: string;
  readonly place: Place;
  process: SupervisorProcess | null;
  incarnations: number;
}

/** Who acts in a world: the supervisors, and what can be done to them, their anchors and their machines. */
export class Cast {
  readonly seats: Seat[] = [];
  readonly strangers: Process[] = [];
  /** Processes in whose place another process of their instance was started while they lived. */
  readonly former: SupervisorProcess[] = [];
  readonly world: World;

  constructor(world: World) {
    this.world = world;
    for (const place of world.places)
      for (let at = 0; at < world.variant.supervisors; at++) {
        const instanceId = `in_${world.machines.indexOf(place.machine)}_${place.pidNamespace.slice(5, -1)}_${at}`;
        this.seats.push({ instanceId, place, process: null, incarnations: 0 });
      }
  }

  /** Those that run, and can be asked for something. */
  get awake(): SupervisorProcess[] {
    return this.alive.filter(({ held, closing }) => !held && !closing);
  }

  get alive(): SupervisorProcess[] {
    return [...this.seats.flatMap(({ process }) => process ?? []), ...this.former].filter(
      ({ gone }) => !gone,
    );
  }

  get down(): Seat[] {
    const alive = new Set(this.alive.map(({ instanceId }) => instanceId));
    return this.seats.filter(({ instanceId }) => !alive.has(instanceId));
  }

  get anchors(): Anchor[] {
    return [...this.world.watch.runs.values()].flatMap(({ anchor }) =>
      anchor !== null && !anchor.gone ? [anchor] : [],
    );
  }

  /** Machines where nobody is. */
  get absent(): Machine[] {
    return this.world.machines.filter(
      (machine) => !this.alive.some(({ place }) => place.machine === machine),
    );
  }

  boot(seat: Seat): void {
    const { watch } = this.world;
    const instance = this.world.directoryOf(seat.place.machine).instance(seat.instanceId);
    seat.incarnations++;
    watch.whereabouts.set(seat.instanceId, { identity: seat.place.identity, hindered: false });
    this.world.note(() => `${seat.instanceId}#${seat.incarnations} starts`);
    seat.process = new SupervisorProcess(this.world, instance, seat.place, seat.incarnations);
  }

  /** The lock file is deleted under a process, and a second process of its instance starts. */
  duplicate(seat: Seat): void {
    const { process } = seat;
    if (process === null || process.gone) return;
    this.world.note(() => `the lock of ${process.name} is deleted`);
    this.former.push(process);
    this.boot(seat);
  }

  kill(process: SupervisorProcess): void {
    this.world.note(() => `${process.name} is killed`);
    process.end();
  }

  hinder(process: SupervisorProcess): void {
    const found = this.world.watch.whereabouts.get(process.instanceId);
    if (found !== undefined) found.hindered = true;
  }

  /** All processes of a machine are gone, and its clock begins anew. */
  reboot(machine: Machine): void {
    this.world.note(() => `${machine.hostId} is rebooted`);
    for (const place of machine.places) this.empty(place);
    machine.reboot();
    machine.listingFails = false;
  }

  /** The container is restarted: its processes are gone, its numbers mean nothing any more. */
  renew(place: Place): void {
    this.world.note(() => `container ${place.pidNamespace} is restarted`);
    this.empty(place);
    place.pidNamespace = `${place.pidNamespace.slice(0, -1)}']`;
  }

  empty(place: Place): void {
    for (const process of this.alive) if (process.place === place) process.end();
    for (const truth of this.world.watch.runs.values())
      if (truth.anchor?.place === place && !truth.exitFileWritten()) truth.restarted = true;
    // Nobody is told: who would have been is gone as well.
    for (const process of place.processes.values()) process.alive = false;
    for (const process of place.processes.values()) if (process.what !== "root") process.onDeath(9);
    place.processes.clear();
  }

  dismissStrangers(): void {
    for (const stranger of this.strangers.splice(0)) die(this.world, stranger, null);
  }
}
