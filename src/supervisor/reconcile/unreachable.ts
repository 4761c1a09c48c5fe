import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { SupervisorContext } from "../run/live-run.js";
import { reconcileEvent } from "./applied-decision.js";
import type { Classified } from "./classify.js";
import type { Decision, Row } from "../decision.js";

/** Left alone until it has been seen so for long enough, by who was awake to see it. */
const TRACKED_ROWS: readonly Row[] = ["elsewhere", "stalled"];

interface TrackedRun {
  readonly row: Row;
  readonly since: number;
  readonly last: number;
}

/** Some runs; or all that concern this state directory; or also those elsewhere that have been silent for long. */
export type PassReach = "some" | "here" | "everywhere";

/** What this supervisor has left alone, and since when it has seen nothing of its owner. */
export class UnreachableTracker {
  readonly #reported = new Map<string, string>();
  readonly #tracked = new Map<string, TrackedRun>();
  #blind = false;
  /** What only a look everywhere finds. */
  #farRuns: ReadonlySet<string> = new Set();
  #nextFarPassAt = -Infinity;

  isFarPassDue(now: number): boolean {
    return now >= this.#nextFarPassAt;
  }

  /** What was found elsewhere stays as it is until the next such look: an owner that had renewed would be missing there for a day. */
  recordFarPass(found: ReadonlySet<string>, againAt: number): void {
    this.#farRuns = found;
    this.#nextFarPassAt = againAt;
  }

  unreachableMs(runId: string, now: number): number {
    const watched = this.#tracked.get(runId);
    return watched === undefined ? 0 : now - this.#since(watched, now);
  }

  /** A look failed, because the store is away: from the last one to the next, nobody could be heard of. */
  recordBlindPass(): void {
    this.#blind = true;
  }

  /** Forget what was looked at and is no longer left alone, so that neither map outgrows the runs there are. */
  update(reach: PassReach, left: ReadonlyMap<string, Decision>, now: number): void {
    const wasSeen = (runId: string): boolean =>
      reach === "everywhere" || (reach === "here" && !this.#farRuns.has(runId));
    for (const runId of this.#reported.keys())
      if (wasSeen(runId) && !left.has(runId)) this.#reported.delete(runId);
    for (const [runId, { row }] of this.#tracked)
      if (wasSeen(runId) && left.get(runId)?.row !== row) this.#tracked.delete(runId);
    for (const [runId, { row }] of left) {
      if (!TRACKED_ROWS.includes(row)) continue;
      const before = this.#tracked.get(runId);
      const since = before === undefined ? now : this.#since(before, now);
      this.#tracked.set(runId, { row, since, last: now });
    }
    if (reach === "everywhere") this.#blind = false;
  }

  /** True when this was not the last thing said of it. */
  isChanged(runId: string, { row, why }: Decision): boolean {
    const said = `${row}: ${why}`;
    if (this.#reported.get(runId) === said) return false;
    this.#reported.set(runId, said);
    return true;
  }

  /** While nobody could look, the store was away, and its owner could not renew either. */
  #since({ row, since, last }: TrackedRun, now: number): number {
    if (row === "stalled") return now - last > defaults.stalledWatchMs ? now : since;
    return this.#blind ? since + now - last : since;
  }
}

/**
 * One event when a run comes to be left alone, not one for each look. A healthy lease is no decision about the run:
 * that somebody looks after it is what should be.
 */
export async function recordLeftAlone(
  context: SupervisorContext,
  tracker: UnreachableTracker,
  classified: readonly Classified[],
  reach: PassReach,
): Promise<void> {
  const leftAlone = classified.filter(
    ({ decision: { action, row } }) => action === "leave" && row !== "healthy",
  );
  tracker.update(
    reach,
    new Map(leftAlone.map(({ record, decision }) => [record.runId, decision] as const)),
    context.clock.now(),
  );
  const events: NewRunEvent[] = [];
  for (const { record, decision } of leftAlone) {
    if (!tracker.isChanged(record.runId, decision)) continue;
    const event = reconcileEvent(context, record, decision, record.leaseEpoch);
    if (!(await isLastEvent(context, event))) events.push(event);
    context.report({
      runId: record.runId,
      message: `run ${record.runId} is left alone: ${decision.why}`,
      cause: null,
    });
  }
  if (events.length > 0) await context.store.appendEvents(events);
}

/** An earlier process of this instance may have said the same. */
async function isLastEvent({ store }: SupervisorContext, event: NewRunEvent): Promise<boolean> {
  const [last] = await store.listEvents({ runId: event.runId, newestFirst: true, limit: 1 });
  return last?.type === "reconcile" && JSON.stringify(last.data) === JSON.stringify(event.data);
}
