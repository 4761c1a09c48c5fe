import * as anchors from "./actions/anchors.js";
import * as surroundings from "./actions/environment.js";
import * as time from "./actions/environment.js";
import * as processes from "./actions/processes.js";
import * as runs from "./actions/runs.js";
import * as supervisors from "./actions/supervisors.js";
import type { SimulationContext } from "./simulation-context.js";
import type { SimulationVariant } from "./world.js";

/** The actions of a schedule and their weights. An action may find nothing to act on. */
const ACTIONS = {
  spawn: { weight: 9, act: runs.spawnRun },
  cancel: { weight: 4, act: runs.cancelRun },
  stopByKey: { weight: 1, act: runs.stopByKey },
  steer: { weight: 3, act: runs.controlRun },
  kill: { weight: 4, act: supervisors.killSupervisor },
  stop: { weight: 2.5, act: supervisors.suspendSupervisor },
  resume: { weight: 3, act: supervisors.resumeSupervisor },
  boot: { weight: 6, act: supervisors.startSupervisor },
  duplicate: { weight: 0.7, act: supervisors.startSecondProcess },
  close: { weight: 0.7, act: supervisors.closeSupervisor },
  killAnchor: { weight: 2.5, act: anchors.killAnchor },
  killWarmAnchor: { weight: 1.5, act: anchors.killWarmAnchor },
  stopWarmAnchor: { weight: 0.7, act: anchors.stopWarmAnchor },
  continueWarmAnchor: { weight: 1, act: anchors.continueWarmAnchor },
  killLauncher: { weight: 1.5, act: anchors.killLauncher },
  usurp: { weight: 1, act: anchors.killAnchorAndReusePid },
  stopAnchor: { weight: 1.2, act: anchors.stopAnchor },
  continueAnchor: { weight: 1.5, act: anchors.continueAnchor },
  breakConnection: { weight: 4, act: anchors.breakConnection },
  exit: { weight: 4, act: processes.exitProcess },
  fork: { weight: 4, act: processes.forkProcess },
  daemonize: { weight: 2, act: processes.daemonize },
  output: { weight: 3, act: processes.writeOutput },
  sticks: { weight: 0.3, act: processes.makeUnkillable },
  wakes: { weight: 1, act: processes.makeKillable },
  stranger: { weight: 4, act: processes.startUnrelated },
  strangerLeaves: { weight: 2, act: processes.endUnrelated },
  storeTrouble: { weight: 1.5, act: surroundings.breakStore },
  storeWell: { weight: 4, act: surroundings.repairStore },
  listingFails: { weight: 0.8, act: surroundings.breakProcessListing },
  listingWorks: { weight: 3, act: surroundings.repairProcessListing },
  suspend: { weight: 0.7, act: surroundings.suspendMachine },
  wallJumps: { weight: 1, act: surroundings.jumpWallClock },
  reboot: { weight: 0.5, act: surroundings.rebootMachine },
  renewContainer: { weight: 0.5, act: surroundings.restartContainer },
  tick: { weight: 12, act: time.advanceToNextTimer },
  moment: { weight: 5, act: time.advanceBriefly },
  lease: { weight: 2, act: time.advancePastLease },
  outlast: { weight: 2, act: supervisors.suspendPastLease },
  oversleep: { weight: 1.2, act: supervisors.suspendUntilStolen },
  forget: { weight: 0.3, act: surroundings.loseRunRecord },
  retain: { weight: 0.4, act: supervisors.applyRetention },
  starve: { weight: 0.5, act: time.advanceWithoutRunning },
} satisfies Record<
  string,
  { readonly weight: number; readonly act: (context: SimulationContext) => void | Promise<void> }
>;

type ActionName = keyof typeof ACTIONS;
const ACTION_NAMES = Object.keys(ACTIONS) as ActionName[];

/** Each schedule has its own weights, so that rare combinations occur. */
const WEIGHTS = [0.1, 0.5, 1, 1, 3, 6];

/** One schedule's choice among the acts. */
export class RandomActions {
  readonly #stage: SimulationContext;
  readonly #weights: Record<ActionName, number>;

  constructor(context: SimulationContext) {
    this.#stage = context;
    const senseless = uselessActions(context.world.variant);
    const weigh = (name: ActionName): number =>
      senseless.includes(name) ? 0 : ACTIONS[name].weight * context.random.pick(WEIGHTS);
    this.#weights = Object.fromEntries(ACTION_NAMES.map((name) => [name, weigh(name)])) as Record<
      ActionName,
      number
    >;
  }

  async any(): Promise<void> {
    const { actors, random, spawned } = this.#stage;
    const someoneStopped = actors.alive.some(({ held }) => held);
    const name = random.weighted({
      ...this.#weights,
      ...(spawned === 0 ? { spawn: 60 } : {}),
      ...(someoneStopped ? {} : { outlast: 0 }),
    });
    await ACTIONS[name].act(this.#stage);
  }
}

function uselessActions({
  supervisors: each,
  machines,
  containers,
  reboots,
}: SimulationVariant): readonly ActionName[] {
  return [
    ...(each > 1 ? [] : ["oversleep" as const]),
    ...(reboots ? [] : ["reboot" as const]),
    ...(containers > 1 ? [] : ["renewContainer" as const]),
    // A supervisor must not forget a run whose directory is on another machine.
    ...(machines > 1 ? ["retain" as const] : []),
  ];
}
