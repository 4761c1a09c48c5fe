import * as anchors from "./acts/anchors.js";
import * as processes from "./acts/processes.js";
import * as runs from "./acts/runs.js";
import * as supervisors from "./acts/supervisors.js";
import * as surroundings from "./acts/surroundings.js";
import * as time from "./acts/time.js";
import type { Stage } from "./stage.js";
import type { Variant } from "./world.js";

/** What a schedule may do, and how often. Each act either does something or finds nothing to do it to. */
const ACTS = {
  spawn: { weight: 9, act: runs.spawn },
  cancel: { weight: 4, act: runs.cancel },
  stopByKey: { weight: 1, act: runs.stopByKey },
  steer: { weight: 3, act: runs.steer },
  kill: { weight: 4, act: supervisors.kill },
  stop: { weight: 2.5, act: supervisors.stop },
  resume: { weight: 3, act: supervisors.resume },
  boot: { weight: 6, act: supervisors.boot },
  duplicate: { weight: 0.7, act: supervisors.duplicate },
  close: { weight: 0.7, act: supervisors.close },
  killAnchor: { weight: 2.5, act: anchors.killAnchor },
  killLauncher: { weight: 1.5, act: anchors.killLauncher },
  usurp: { weight: 1, act: anchors.usurp },
  stopAnchor: { weight: 1.2, act: anchors.stopAnchor },
  continueAnchor: { weight: 1.5, act: anchors.continueAnchor },
  breakConnection: { weight: 4, act: anchors.breakConnection },
  exit: { weight: 4, act: processes.exit },
  fork: { weight: 4, act: processes.fork },
  daemonize: { weight: 2, act: processes.daemonize },
  output: { weight: 3, act: processes.output },
  sticks: { weight: 0.3, act: processes.sticks },
  wakes: { weight: 1, act: processes.wakes },
  stranger: { weight: 4, act: processes.stranger },
  strangerLeaves: { weight: 2, act: processes.strangerLeaves },
  storeTrouble: { weight: 1.5, act: surroundings.storeTrouble },
  storeWell: { weight: 4, act: surroundings.storeWell },
  listingFails: { weight: 0.8, act: surroundings.listingFails },
  listingWorks: { weight: 3, act: surroundings.listingWorks },
  suspend: { weight: 0.7, act: surroundings.suspend },
  wallJumps: { weight: 1, act: surroundings.wallJumps },
  reboot: { weight: 0.5, act: surroundings.reboot },
  renewContainer: { weight: 0.5, act: surroundings.renewContainer },
  tick: { weight: 12, act: time.tick },
  moment: { weight: 5, act: time.moment },
  lease: { weight: 2, act: time.lease },
  outlast: { weight: 2, act: supervisors.outlast },
  oversleep: { weight: 1.2, act: supervisors.oversleep },
  forget: { weight: 0.3, act: surroundings.forget },
  retain: { weight: 0.4, act: supervisors.retain },
  starve: { weight: 0.5, act: time.starve },
} satisfies Record<string, { readonly weight: number; readonly act: (stage: Stage) => void | Promise<void> }>;

type Name = keyof typeof ACTS;
const NAMES = Object.keys(ACTS) as Name[];

/** Each schedule has its taste: what is done by all alike is soon done, what comes together rarely is found by whims. */
const WHIMS = [0.1, 0.5, 1, 1, 3, 6];

/** One schedule's choice among the acts. */
export class Actions {
  readonly #stage: Stage;
  readonly #weights: Record<Name, number>;

  constructor(stage: Stage) {
    this.#stage = stage;
    const senseless = senselessIn(stage.world.variant);
    const weigh = (name: Name): number =>
      senseless.includes(name) ? 0 : ACTS[name].weight * stage.random.pick(WHIMS);
    this.#weights = Object.fromEntries(NAMES.map((name) => [name, weigh(name)])) as Record<Name, number>;
  }

  async any(): Promise<void> {
    const { cast, random, spawned } = this.#stage;
    const someoneStopped = cast.alive.some(({ held }) => held);
    const name = random.weighted({
      ...this.#weights,
      ...(spawned === 0 ? { spawn: 60 } : {}),
      ...(someoneStopped ? {} : { outlast: 0 }),
    });
    await ACTS[name].act(this.#stage);
  }
}

function senselessIn({ supervisors: each, machines, containers, reboots }: Variant): readonly Name[] {
  return [
    ...(each > 1 ? [] : ["oversleep" as const]),
    ...(reboots ? [] : ["reboot" as const]),
    ...(containers > 1 ? [] : ["renewContainer" as const]),
    // Whose directory is on another machine is not for this one to forget.
    ...(machines > 1 ? ["retain" as const] : []),
  ];
}
