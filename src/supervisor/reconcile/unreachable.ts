import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { SupervisorContext } from "../run/live-run.js";
import { reconcileEvent } from "./applied-decision.js";
import type { Classified } from "./classify.js";
import type { Decision, Row } from "../decision.js";

/** Rows that lead to a decision when a supervisor, while awake, has seen them for long enough. */
const TRACKED_ROWS: readonly Row[] = ["elsewhere", "stalled"];

interface TrackedRun {
  readonly row: Row;
  readonly since: number;
  readonly last: number;
}

/** Extent of a pass: some runs, all runs of this state directory, or also silent runs of other hosts. */
export type PassReach = "some" | "here" | "everywhere";

/** The runs that this supervisor left alone, and since when their owners have given no sign of life. */
export class UnreachableTracker {
  readonly #reported = new Map<string, string>();
  readonly #tracked = new Map<string, TrackedRun>();
  /** The last pass failed, because the store was unreachable. */
  #blind = false;
  /** Runs that only a pass everywhere finds. */
  #farRuns: ReadonlySet<string> = new Set();
  #nextFarPassAt = -Infinity;

  isFarPassDue(now: number): boolean {
    return now >= this.#nextFarPassAt;
  }

  /** Runs of other hosts are kept until the next pass everywhere. */
  recordFarPass(found: ReadonlySet<string>, againAt: number): void {
    this.#farRuns = found;
    this.#nextFarPassAt = againAt;
  }

  unreachableMs(runId: string, now: number): number {
    const watched = this.#tracked.get(runId);
    return watched === undefined ? 0 : now - this.#since(watched, now);
  }

  /** The store is unreachable: the time until the next pass does not count as silence of an owner. */
  recordBlindPass(): void {
    this.#blind = true;
  }

  /** Drops runs that are no longer left alone, so that the maps do not grow without limit. */
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

  /** True: the last report about the run was different. */
  isChanged(runId: string, { row, why }: Decision): boolean {
    const text = `${row}: ${why}`;
    if (this.#reported.get(runId) === text) return false;
    this.#reported.set(runId, text);
    return true;
  }

  /** While the store was unreachable, the owner could not renew either. */
  #since({ row, since, last }: TrackedRun, now: number): number {
    if (row === "stalled") return now - last > defaults.stalledWatchMs ? now : since;
    return this.#blind ? since + now - last : since;
  }
}

/**
 * Writes one event when a run is left alone for the first time, not one per pass. A run with a healthy lease is the
 * normal case and gets none.
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

/** An earlier process of this instance may have written the same event. */
async function isLastEvent({ store }: SupervisorContext, event: NewRunEvent): Promise<boolean> {
  const [last] = await store.listEvents({ runId: event.runId, newestFirst: true, limit: 1 });
  return last?.type === "reconcile" && JSON.stringify(last.data) === JSON.stringify(event.data);
}
