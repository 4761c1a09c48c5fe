import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../store/run-event.js";
import type { Context } from "../context.js";
import { reconcileEvent } from "./act.js";
import type { Decision, Row } from "./decide.js";
import type { Examined } from "./examine.js";

/** Left alone until it has been seen so for long enough, by who was awake to see it. */
const WATCHED: readonly Row[] = ["elsewhere", "stalled"];

interface Watched {
  readonly row: Row;
  readonly since: number;
  readonly last: number;
}

/** Some runs; or all that concern this state directory; or also those elsewhere that have been silent for long. */
export type Looked = "some" | "here" | "everywhere";

/** What this supervisor has left alone, and since when it has seen nothing of its owner. */
export class Left {
  readonly #said = new Map<string, string>();
  readonly #watched = new Map<string, Watched>();
  #blind = false;
  /** What only a look everywhere finds. */
  #far: ReadonlySet<string> = new Set();
  #farAgainAt = -Infinity;

  mayLookFar(now: number): boolean {
    return now >= this.#farAgainAt;
  }

  /** What was found elsewhere stays as it is until the next such look: an owner that had renewed would be missing there for a day. */
  lookedFar(found: ReadonlySet<string>, againAt: number): void {
    this.#far = found;
    this.#farAgainAt = againAt;
  }

  unreachableMs(runId: string, now: number): number {
    const watched = this.#watched.get(runId);
    return watched === undefined ? 0 : now - this.#since(watched, now);
  }

  /** A look failed, because the store is away: from the last one to the next, nobody could be heard of. */
  sawNothing(): void {
    this.#blind = true;
  }

  /** Forget what was looked at and is no longer left alone, so that neither map outgrows the runs there are. */
  keep(looked: Looked, left: ReadonlyMap<string, Decision>, now: number): void {
    const wasSeen = (runId: string): boolean =>
      looked === "everywhere" || (looked === "here" && !this.#far.has(runId));
    for (const runId of this.#said.keys()) if (wasSeen(runId) && !left.has(runId)) this.#said.delete(runId);
    for (const [runId, { row }] of this.#watched)
      if (wasSeen(runId) && left.get(runId)?.row !== row) this.#watched.delete(runId);
    for (const [runId, { row }] of left) {
      if (!WATCHED.includes(row)) continue;
      const before = this.#watched.get(runId);
      const since = before === undefined ? now : this.#since(before, now);
      this.#watched.set(runId, { row, since, last: now });
    }
    if (looked === "everywhere") this.#blind = false;
  }

  /** True when this was not the last thing said of it. */
  isNews(runId: string, { row, why }: Decision): boolean {
    const said = `${row}: ${why}`;
    if (this.#said.get(runId) === said) return false;
    this.#said.set(runId, said);
    return true;
  }

  /** While nobody could look, the store was away, and its owner could not renew either. */
  #since({ row, since, last }: Watched, now: number): number {
    if (row === "stalled") return now - last > defaults.stalledWatchMs ? now : since;
    return this.#blind ? since + now - last : since;
  }
}

/**
 * One event when a run comes to be left alone, not one for each look. A healthy lease is no decision about the run:
 * that somebody looks after it is what should be.
 */
export async function noteLeft(
  context: Context,
  examined: readonly Examined[],
  looked: Looked,
): Promise<void> {
  const leftAlone = examined.filter(
    ({ decision: { action, row } }) => action === "leave" && row !== "healthy",
  );
  context.left.keep(
    looked,
    new Map(leftAlone.map(({ record, decision }) => [record.runId, decision] as const)),
    context.clock.now(),
  );
  const events: NewRunEvent[] = [];
  for (const { record, decision } of leftAlone) {
    if (!context.left.isNews(record.runId, decision)) continue;
    const event = reconcileEvent(context, record, decision, record.leaseEpoch);
    if (!(await isLastWord(context, event))) events.push(event);
    context.report({
      runId: record.runId,
      message: `run ${record.runId} is left alone: ${decision.why}`,
      cause: null,
    });
  }
  if (events.length > 0) await context.store.appendEvents(events);
}

/** An earlier process of this instance may have said the same. */
async function isLastWord({ store }: Context, event: NewRunEvent): Promise<boolean> {
  const [last] = await store.listEvents({ runId: event.runId, newestFirst: true, limit: 1 });
  return last?.type === "reconcile" && JSON.stringify(last.data) === JSON.stringify(event.data);
}
