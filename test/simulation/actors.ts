import type { SimulatedAnchor } from "./parts/anchor.js";
import {
  endProcess,
  type SimulatedMachine,
  type SimulatedPidNamespace,
  type SimulatedProcess,
} from "./parts/machine.js";
import { SimulatedSupervisor } from "./parts/supervisor.js";
import type { SimulatedWorld } from "./world.js";

/** A supervisor's place in the world: its instance lasts, its processes come and go. */
interface SupervisorSlot {
  readonly instanceId: string;
  readonly place: SimulatedPidNamespace;
  process: SimulatedSupervisor | null;
  incarnations: number;
}

/** The supervisors of a world, with operations on them, their anchors and their machines. */
export class Actors {
  readonly slots: SupervisorSlot[] = [];
  readonly unrelated: SimulatedProcess[] = [];
  /** Processes in whose place another process of their instance was started while they lived. */
  readonly replaced: SimulatedSupervisor[] = [];
  readonly world: SimulatedWorld;

  constructor(world: SimulatedWorld) {
    this.world = world;
    for (const place of world.places)
      for (let at = 0; at < world.variant.supervisors; at++) {
        const instanceId = `in_${world.machines.indexOf(place.machine)}_${place.pidNamespace.slice(5, -1)}_${at}`;
        this.slots.push({ instanceId, place, process: null, incarnations: 0 });
      }
  }

  /** The running supervisors that take requests. */
  get awake(): SimulatedSupervisor[] {
    return this.alive.filter(({ held, closing }) => !held && !closing);
  }

  get alive(): SimulatedSupervisor[] {
    return [...this.slots.flatMap(({ process }) => process ?? []), ...this.replaced].filter(
      ({ gone }) => !gone,
    );
  }

  get down(): SupervisorSlot[] {
    const alive = new Set(this.alive.map(({ instanceId }) => instanceId));
    return this.slots.filter(({ instanceId }) => !alive.has(instanceId));
  }

  get anchors(): SimulatedAnchor[] {
    return [...this.world.watch.runs.values()].flatMap(({ anchor }) =>
      anchor !== null && !anchor.gone ? [anchor] : [],
    );
  }

  /** The warm anchors. */
  get warmAnchors(): SimulatedAnchor[] {
    return this.world.machines.flatMap((machine) =>
      [...this.world.directoryOf(machine).instances.values()].flatMap(({ warm }) =>
        [...warm.values()].flatMap(({ anchor }) => (anchor !== null && !anchor.gone ? [anchor] : [])),
      ),
    );
  }

  /** Machines without a supervisor. */
  get emptyMachines(): SimulatedMachine[] {
    return this.world.machines.filter(
      (machine) => !this.alive.some(({ place }) => place.machine === machine),
    );
  }

  boot(slot: SupervisorSlot): void {
    const { watch } = this.world;
    const instance = this.world.directoryOf(slot.place.machine).instance(slot.instanceId);
    slot.incarnations++;
    watch.whereabouts.set(slot.instanceId, { identity: slot.place.identity, hindered: false });
    this.world.note(() => `${slot.instanceId}#${slot.incarnations} starts`);
    slot.process = new SimulatedSupervisor(this.world, instance, slot.place, slot.incarnations);
  }

  /** The lock file is deleted under a process, and a second process of its instance starts. */
  duplicate(slot: SupervisorSlot): void {
    const { process } = slot;
    if (process === null || process.gone) return;
    this.world.note(() => `the lock of ${process.name} is deleted`);
    this.replaced.push(process);
    this.boot(slot);
  }

  kill(process: SimulatedSupervisor): void {
    this.world.note(() => `${process.name} is killed`);
    process.end();
  }

  markHindered(process: SimulatedSupervisor): void {
    const found = this.world.watch.whereabouts.get(process.instanceId);
    if (found !== undefined) found.hindered = true;
  }

  /** All processes of a machine are gone, and its clock begins anew. */
  reboot(machine: SimulatedMachine): void {
    this.world.note(() => `${machine.hostId} is rebooted`);
    for (const place of machine.places) this.killAll(place);
    machine.reboot();
    machine.listingFails = false;
  }

  /** The container is restarted: its processes are gone, its numbers mean nothing any more. */
  restartContainer(place: SimulatedPidNamespace): void {
    this.world.note(() => `container ${place.pidNamespace} is restarted`);
    this.killAll(place);
    place.pidNamespace = `${place.pidNamespace.slice(0, -1)}']`;
  }

  killAll(place: SimulatedPidNamespace): void {
    for (const process of this.alive) if (process.place === place) process.end();
    for (const truth of this.world.watch.runs.values())
      if (truth.anchor?.place === place && !truth.exitFileWritten()) truth.restarted = true;
    // No callback: its listeners ended with the machine.
    for (const process of place.processes.values()) process.alive = false;
    for (const process of place.processes.values()) if (process.what !== "root") process.onDeath(9);
    place.processes.clear();
  }

  endUnrelated(): void {
    for (const stranger of this.unrelated.splice(0)) endProcess(this.world, stranger, null);
  }
}
