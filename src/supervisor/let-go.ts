import { SupervisorClosed, type HoldfastError } from "../errors.js";
import { handOverOwed } from "./cancel.js";
import type { LiveRun } from "./live-run.js";

/** Have nothing more to do with a run: somebody else owns it, or this supervisor closes and leaves it. */
export function letGo(live: LiveRun, error: HoldfastError): void {
  if (live.letGo !== null) return;
  live.letGo = error;
  if (!(error instanceof SupervisorClosed)) live.context.robbed = true;
  quiet(live, "this supervisor no longer holds the run");
  live.journal.close(error);
  live.context.live.delete(live.facts.runId);
  live.ended.reject(error);
}

/** Stop everything that works for the run. Idempotent. */
export function quiet(live: LiveRun, why: string): void {
  const { link } = live;
  live.link = null;
  link?.close();
  live.deadlines.dispose();
  live.stdin.end(why);
  live.activity.stop();
  live.exitingNote?.cancel();
  live.exitingNote = null;
  live.ignoreSignal?.();
  live.ignoreSignal = null;
  handOverOwed(live);
  live.ranges.end();
  live.started.resolve();
}
