import type { Random } from "../../simulation/random.js";
import { type LiveProcess, signalProcess } from "../../support/live-processes.js";
import type { Work } from "../works/work.js";
import type { World } from "../world/world.js";

export interface FaultContext {
  readonly world: World;
  readonly random: Random;
  /** The work that the fault is for; null: it is for all. */
  readonly victim: Work | null;
  readonly works: readonly Work[];
  /** Called while the fault is in force: stops a work, or only lets some time pass. */
  readonly during: (mostMs: number) => Promise<void>;
}

/** A fault that is injected, and healed before the next one. */
export interface Fault {
  readonly name: string;
  /** How often it is drawn. */
  readonly weight: number;
  readonly isPossible?: (world: World) => boolean;
  /** Present: the fault is for one work of these. */
  readonly suits?: (work: Work) => boolean;
  /** False: there was nothing to inject it into any more. */
  inject(context: FaultContext): Promise<boolean>;
}

/** SIGSTOP, and SIGCONT afterwards, unless something else has ended it. */
export async function suspendProcess(one: LiveProcess | null, during: () => Promise<void>): Promise<boolean> {
  if (one === null) return false;
  signalProcess(one, "SIGSTOP");
  try {
    await during();
  } finally {
    signalProcess(one, "SIGCONT");
  }
  return true;
}
