import { endProcess } from "../parts/machine.js";
import type { SimulationContext } from "../simulation-context.js";

const MAX_UNRELATED = 12;
const MAX_PROCESSES = 60;

export function exitProcess(context: SimulationContext): void {
  const target = context.pickProcess();
  if (target !== null) endProcess(context.world, target.process, null);
}

export function forkProcess(context: SimulationContext): void {
  forkChild(context, false);
}

export function daemonize(context: SimulationContext): void {
  forkChild(context, true);
}

export function writeOutput(context: SimulationContext): void {
  const anchor = context.random.maybePick(
    context.actors.anchors.filter(({ executed, held }) => executed && !held),
  );
  anchor?.output(context.random.between(1, 100));
}

export function makeUnkillable(context: SimulationContext): void {
  const target = context.pickProcess();
  if (target === null) return;
  target.process.stuck = true;
  context.world.watch.truth(target.anchor.runId).wasStuck = true;
}

export function makeKillable(context: SimulationContext): void {
  for (const { anchor } of context.world.watch.runs.values())
    for (const process of anchor?.place.ofRun(anchor.runId) ?? []) {
      process.stuck = false;
      if (process.doomed) endProcess(context.world, process, 9);
    }
}

export function startUnrelated(context: SimulationContext): void {
  if (context.actors.unrelated.length >= MAX_UNRELATED) return;
  for (let left = context.random.between(1, 4); left > 0; left--)
    context.actors.unrelated.push(
      context.random.pick(context.world.places).bear({ what: "stranger", parent: null }),
    );
}

export function endUnrelated(context: SimulationContext): void {
  const at = context.random.below(context.actors.unrelated.length);
  const [gone] = context.actors.unrelated.splice(at, 1);
  if (gone !== undefined) endProcess(context.world, gone, null);
}

function forkChild(context: SimulationContext, daemon: boolean): void {
  const target = context.pickProcess();
  if (target === null || target.anchor.place.processes.size > MAX_PROCESSES) return;
  const { process, anchor } = target;
  const { runId, cgroup, leaseId, place } = process;
  const child = place.bear({
    what: daemon ? "daemon" : "child",
    parent: process,
    runId: runId ?? anchor.runId,
    cgroup,
    leaseId: context.random.chance(0.2) ? null : leaseId,
    newSession: daemon,
  });
  child.ignoresTerm = context.random.chance(0.3);
  child.onDeath = () => context.world.scheduler.post(anchor, () => anchor.advance());
  if (!daemon) return;
  // Forked twice: the one in between is gone at once.
  let heir = process.parent;
  while (heir !== null && !(heir.alive && heir.subreaper)) heir = heir.parent;
  child.parent = heir;
}
