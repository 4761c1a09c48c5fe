import { die } from "../signal.js";
import type { Stage } from "../stage.js";

const MOST_STRANGERS = 12;
const MOST_PROCESSES = 60;

export function exit(stage: Stage): void {
  const target = stage.target();
  if (target !== null) die(stage.world, target.process, null);
}

export function fork(stage: Stage): void {
  bear(stage, false);
}

export function daemonize(stage: Stage): void {
  bear(stage, true);
}

export function output(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors.filter(({ executed, held }) => executed && !held));
  anchor?.output(stage.random.between(1, 100));
}

export function sticks(stage: Stage): void {
  const target = stage.target();
  if (target === null) return;
  target.process.stuck = true;
  stage.world.watch.truth(target.anchor.runId).wasStuck = true;
}

export function wakes(stage: Stage): void {
  for (const { anchor } of stage.world.watch.runs.values())
    for (const process of anchor?.place.ofRun(anchor.runId) ?? []) {
      process.stuck = false;
      if (process.doomed) die(stage.world, process, 9);
    }
}

export function stranger(stage: Stage): void {
  if (stage.cast.strangers.length >= MOST_STRANGERS) return;
  for (let left = stage.random.between(1, 4); left > 0; left--)
    stage.cast.strangers.push(stage.random.pick(stage.world.places).bear({ what: "stranger", parent: null }));
}

export function strangerLeaves(stage: Stage): void {
  const at = stage.random.below(stage.cast.strangers.length);
  const [gone] = stage.cast.strangers.splice(at, 1);
  if (gone !== undefined) die(stage.world, gone, null);
}

function bear(stage: Stage, daemon: boolean): void {
  const target = stage.target();
  if (target === null || target.anchor.place.processes.size > MOST_PROCESSES) return;
  const { process, anchor } = target;
  const { runId, cgroup, leaseId, place } = process;
  const child = place.bear({
    what: daemon ? "daemon" : "child",
    parent: process,
    runId: runId ?? anchor.runId,
    cgroup,
    leaseId: stage.random.chance(0.2) ? null : leaseId,
    newSession: daemon,
  });
  child.ignoresTerm = stage.random.chance(0.3);
  child.onDeath = () => stage.world.scheduler.post(anchor, () => anchor.advance());
  if (!daemon) return;
  // Forked twice: the one in between is gone at once.
  let heir = process.parent;
  while (heir !== null && !(heir.alive && heir.subreaper)) heir = heir.parent;
  child.parent = heir;
}
