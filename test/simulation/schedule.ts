import { Actions } from "./actions.js";
import { calm } from "./calm.js";
import { Stage } from "./stage.js";
import { World, type Flaws, type Variant } from "./world.js";

export interface Failure {
  readonly seed: number;
  readonly message: string;
}

/** One schedule from one seed, checked after every step. Null: every invariant held. */
export async function runSchedule(
  seed: number,
  variant: Variant,
  options: {
    readonly flaws?: Flaws;
    readonly tell?: (line: string) => void;
    readonly ended?: (world: World) => void;
  } = {},
): Promise<Failure | null> {
  const world = new World(seed, variant, options.flaws);
  world.tell = options.tell ?? null;
  const { random, scheduler } = world;
  const stage = new Stage(world);
  const actions = new Actions(stage);
  try {
    for (const seat of stage.cast.seats) stage.cast.boot(seat);
    for (let left = random.between(30, 80); left > 0; left--) {
      if (random.chance(0.7)) await actions.any();
      for (let more = random.below(12); more > 0; more--) if (!(await scheduler.deliverOne())) break;
    }
    await calm(stage);
    options.ended?.(world);
    return null;
  } catch (error) {
    return { seed, message: error instanceof Error ? error.message : String(error) };
  }
}
