import { Connection } from "../connection.js";
import { die } from "../signal.js";
import type { Stage } from "../stage.js";

export function killAnchor(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors);
  if (anchor === null) return;
  stage.world.watch.truth(anchor.runId).anchorKilled = true;
  die(stage.world, anchor.process, 9);
}

export function killLauncher(stage: Stage): void {
  const seat = stage.random.pick(stage.cast.seats);
  const { launcher } = stage.world.directoryOf(seat.place.machine).instance(seat.instanceId);
  if (launcher !== null) die(stage.world, launcher.process, 9);
}

/** Everybody who could know dies at once, and somebody else has the number of one of them before anybody looks. */
export function usurp(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors.filter(({ executed }) => executed));
  if (anchor === null) return;
  const { process, root, place } = anchor;
  stage.world.watch.truth(anchor.runId).anchorKilled = true;
  if (process.parent !== null && stage.random.chance(0.7)) die(stage.world, process.parent, 9);
  die(stage.world, process, 9);
  if (stage.random.chance(0.8)) die(stage.world, root, 9);
  const { pid } = stage.random.pick([process, root]).identity;
  if (!place.processes.has(pid))
    stage.cast.strangers.push(place.bear({ what: "stranger", parent: null, pid }));
}

export function stopAnchor(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors);
  anchor?.halt(stage.random.chance(0.6));
}

export function continueAnchor(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors.filter(({ held }) => held));
  anchor?.release();
}

export function breakConnection(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors);
  const connection = anchor && stage.random.maybePick([...anchor.connections]);
  if (!(connection instanceof Connection)) return;
  stage.world.note(() => `a connection of ${connection.by.name} breaks`);
  connection.break();
}
