import type { LiveRun } from "./live-run.js";

/**
 * With `discardOutput`, remove the run's directory once its end is committed, nobody follows it, and somebody has been
 * told of it: a command that ends within the spawn call must not lose its output to a caller who has not looked yet.
 */
export function releaseOutput(live: LiveRun): void {
  if (!mayGo(live)) return;
  // A turn later: who awaited the end may begin to read in answer to it.
  live.context.clock.after(
    0,
    () => {
      if (!mayGo(live)) return;
      live.discarded = true;
      live.context.track(live.facts.runId, live.context.host.discard(live.facts.address));
    },
    { keepAlive: true },
  );
}

function mayGo(live: LiveRun): boolean {
  return (
    live.context.discardOutput &&
    live.witnessed &&
    live.followers === 0 &&
    !live.discarded &&
    live.state.name === "exited" &&
    !live.context.live.has(live.facts.runId)
  );
}
