import { defaults } from "../../defaults.js";
import type { Decision, Row } from "../reconcile-decision.js";

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
