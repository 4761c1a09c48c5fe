import type { SimulatedPidNamespace, SimulatedProcess } from "./machine.js";
import type { SimulatedWorld } from "../world.js";

/** Who signals, and for which run it believes to do so. */
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

export function endProcess(world: SimulatedWorld, process: SimulatedProcess, by: number | null): void {
  if (!process.alive) return;
  world.note(
    () => `process ${process.identity.pid} (${process.what}) is gone${by === null ? "" : `, signal ${by}`}`,
  );
  process.place.bury(process, by);
}
