import { RandomActions } from "./random-actions.js";
import { quiesce } from "./quiesce.js";
import { SimulationContext } from "./simulation-context.js";
import { SimulatedWorld, type PlantedBugs, type SimulationVariant } from "./world.js";

interface ScheduleFailure {
  readonly seed: number;
  readonly message: string;
}

/** One schedule from one seed, checked after every step. Null: every invariant held. */
export async function runSchedule(
  seed: number,
  variant: SimulationVariant,
  options: {
    readonly flaws?: PlantedBugs;
    readonly tell?: (line: string) => void;
    readonly ended?: (world: SimulatedWorld) => void;
  } = {},
): Promise<ScheduleFailure | null> {
  const world = new SimulatedWorld(seed, variant, options.flaws);
  world.tell = options.tell ?? null;
  const { random, scheduler } = world;
  const context = new SimulationContext(world);
  const actions = new RandomActions(context);
  try {
    for (const slot of context.actors.slots) context.actors.boot(slot);
    for (let left = random.between(30, 80); left > 0; left--) {
      if (random.chance(0.7)) await actions.any();
      for (let more = random.below(12); more > 0; more--) if (!(await scheduler.deliverOne())) break;
    }
    await quiesce(context);
    options.ended?.(world);
    return null;
  } catch (error) {
    return { seed, message: error instanceof Error ? error.message : String(error) };
  }
}
