import type { AnchorLink, FirstStop, StopRequest, Survivor } from "../anchor/host.js";
import { leftText } from "../anchor/seen.js";
import { defaults } from "../defaults.js";
import { BadInput, LeaseLost } from "../errors.js";
import { expectAnswer } from "./anchor-liveness.js";
import type { CancelOptions } from "./api.js";
import { deferred } from "./deferred.js";
import { newRequestId } from "./ids.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { step } from "./run-state.js";
import { oneOf, plainText } from "./spawn-options.js";

const STOP_REASONS = ["manual-cancel", "overall-timeout", "no-output-timeout", "shutdown"] as const;

/** Resolves when the stop is with the anchor, which keeps the first one's reason; or when there is nothing left to stop. */
export async function cancel(live: LiveRun, options: CancelOptions = {}): Promise<void> {
  const {
    reason = "manual-cancel",
    actor = live.context.actor,
    requestId = newRequestId(),
    graceMs = null,
  } = options;
  oneOf("reason", reason, STOP_REASONS);
  plainText("actor", actor);
  plainText("requestId", requestId);
  if (graceMs !== null && !(Number.isFinite(graceMs) && graceMs >= 0))
    throw new BadInput("graceMs", `a grace must be a number of milliseconds, 0 or more, not ${graceMs}`);
  if (isOver(live)) return;
  const stop = { reason, actor, requestId, graceMs };
  // A second cancel is no new reason, but it may shorten the grace.
  if (!live.deadlines.cancel(stop)) sendStop(live, stop);
  if (live.owed.length === 0) return;
  live.owedHanded ??= deferred<void>();
  // After this time the run is ended without its anchor if possible. Otherwise the stop stays pending.
  await live.context.clock.pause(defaults.stopBoundMs, live.owedHanded.promise);
  // Robbed with the stop still in hand: nobody has heard of it.
  if (live.letGo instanceof LeaseLost) throw live.letGo;
}

/** The anchor first, the record after: stopping works whatever the store does. */
export function sendStop(live: LiveRun, stop: StopRequest): void {
  if (isOver(live)) return;
  live.state = step(live.state, { type: "stop", stop });
  live.asked ??= stop;
  if (live.link === null) live.owed.push(stop);
  else live.link.stop(stop);
  expectAnswer(live);
}

/** A stop that was on its way when the connection broke: the anchor does not know of it. */
export function repeatLost({ asked, owed }: LiveRun, link: AnchorLink): void {
  if (asked !== null && link.welcome.firstStop === null && !owed.includes(asked)) link.stop(asked);
}

/** There is a connection (again): what was asked meanwhile is asked now, in order. */
export function handOverOwed(live: LiveRun): void {
  if (live.link !== null && live.owed.length > 0) {
    for (const stop of live.owed) live.link.stop(stop);
    expectAnswer(live);
  }
  live.owed = [];
  live.owedHanded?.resolve();
  live.owedHanded = null;
}

/** Once per run, in the anchor's words: it alone knows which stop was the first. */
export function noteStop(live: LiveRun, { reason, actor, requestId }: FirstStop): void {
  if (live.stopNoted) return;
  live.stopNoted = true;
  const at = live.context.clock.wall();
  live.journal.note({ to: "exiting", at }, [
    { ...eventFacts(live, at), type: "cancel", data: { reason, actor, requestId } },
  ]);
}

/** Known to resist: said once in the record and once aloud. */
export function noteSurvivors(live: LiveRun, survivors: readonly Survivor[], next: string): void {
  if (live.survivorsNoted || survivors.length === 0) return;
  live.survivorsNoted = true;
  const at = live.context.clock.wall();
  const data = { mode: "pid", residue: 0, ended: 0, survivors: survivors.length } as const;
  live.journal.note(null, [{ ...eventFacts(live, at), type: "cleanup", data }]);
  const { runId } = live.facts;
  const names = survivors.map(leftText).join(", ");
  const message = `run ${runId}: still there after KILL: ${names}; ${next}`;
  live.context.report({ runId, message, cause: survivors });
}
