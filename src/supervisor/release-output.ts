import type { LiveRun } from "./run/live-run.js";

/**
 * With `discardOutput`, remove the run's directory once its end is committed, nobody follows it, and somebody has been
 * told of it: a command that ends within the spawn call must not lose its output to a caller who has not looked yet.
 */
export function discardUnusedOutput(live: LiveRun): void {
  if (!canDiscard(live)) return;
  // A turn later: who awaited the end may begin to read in answer to it.
  live.context.clock.setTimer(
    0,
    () => {
      if (!canDiscard(live)) return;
      live.discarded = true;
      live.context.track(live.facts.runId, live.context.host.removeRunDirectory(live.facts.address));
    },
    { keepAlive: true },
  );
}

function canDiscard(live: LiveRun): boolean {
  return (
    live.context.discardOutput &&
    live.outputSeen &&
    live.followers === 0 &&
    !live.discarded &&
    live.state.name === "exited" &&
    !live.context.runs.has(live.facts.runId)
  );
}
