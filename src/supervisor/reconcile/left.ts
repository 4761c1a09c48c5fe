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

/** What this supervisor has left alone, and since when it has seen nothing of its owner. */
export class Left {
  readonly #said = new Map<string, string>();
  readonly #watched = new Map<string, Watched>();
  #blind = false;

  unreachableMs(runId: string, now: number): number {
    const watched = this.#watched.get(runId);
    return watched === undefined ? 0 : now - this.#since(watched, now);
  }

  /** A look failed, because the store is away: from the last one to the next, nobody could be heard of. */
  sawNothing(): void {
    this.#blind = true;
  }

  /** After a look at everything, forget what is no longer left alone, so that neither map outgrows the runs there are. */
  keep(everything: boolean, left: ReadonlyMap<string, Decision>, now: number): void {
    if (everything) {
      for (const runId of this.#said.keys()) if (!left.has(runId)) this.#said.delete(runId);
      for (const [runId, { row }] of this.#watched)
        if (left.get(runId)?.row !== row) this.#watched.delete(runId);
    }
    for (const [runId, { row }] of left) {
      if (!WATCHED.includes(row)) continue;
      const before = this.#watched.get(runId);
      const since = before === undefined ? now : this.#since(before, now);
      this.#watched.set(runId, { row, since, last: now });
    }
    if (everything) this.#blind = false;
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
  everything: boolean,
): Promise<void> {
  const leftAlone = examined.filter(
    ({ decision: { action, row } }) => action === "leave" && row !== "healthy",
  );
  context.left.keep(
    everything,
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
