import { SimulatedConnection } from "../parts/connection.js";
import { endProcess } from "../parts/machine.js";
import type { SimulationContext } from "../simulation-context.js";

export function killAnchor(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors);
  if (anchor === null) return;
  context.world.watch.truth(anchor.runId).anchorKilled = true;
  endProcess(context.world, anchor.process, 9);
}

/** Acts on a warm anchor, also while START is on its way. */
export function killWarmAnchor(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.warmAnchors);
  if (anchor === null) return;
  context.world.watch.truth(anchor.runId).anchorKilled = true;
  endProcess(context.world, context.random.chance(0.7) ? anchor.process : anchor.root, 9);
}

export function stopWarmAnchor(context: SimulationContext): void {
  context.random.maybePick(context.actors.warmAnchors)?.halt(context.random.chance(0.3));
}

export function continueWarmAnchor(context: SimulationContext): void {
  context.random.maybePick(context.actors.warmAnchors.filter(({ held }) => held))?.release();
}

export function killLauncher(context: SimulationContext): void {
  const slot = context.random.pick(context.actors.slots);
  const { launcher } = context.world.directoryOf(slot.place.machine).instance(slot.instanceId);
  if (launcher !== null) endProcess(context.world, launcher.process, 9);
}

/** Anchor, launcher and leader end at once, and a bystander reuses one of their pids before the next pass. */
export function killAnchorAndReusePid(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors.filter(({ executed }) => executed));
  if (anchor === null) return;
  const { process, root, place } = anchor;
  context.world.watch.truth(anchor.runId).anchorKilled = true;
  if (process.parent !== null && context.random.chance(0.7)) endProcess(context.world, process.parent, 9);
  endProcess(context.world, process, 9);
  if (context.random.chance(0.8)) endProcess(context.world, root, 9);
  const { pid } = context.random.pick([process, root]).identity;
  if (!place.processes.has(pid))
    context.actors.unrelated.push(place.bear({ what: "stranger", parent: null, pid }));
}

export function stopAnchor(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors);
  anchor?.halt(context.random.chance(0.6));
}

export function continueAnchor(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors.filter(({ held }) => held));
  anchor?.release();
}

export function breakConnection(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors);
  const connection = anchor && context.random.maybePick([...anchor.connections]);
  if (!(connection instanceof SimulatedConnection)) return;
  context.world.note(() => `a connection of ${connection.by.name} breaks`);
  connection.break();
}
