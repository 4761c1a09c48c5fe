import { WORK_KINDS, type WorkKind } from "./works/work.js";

/** The kinds of problems; the columns of the table. */
export const PROBLEM_KINDS = [
  "survivors",
  "strangers",
  "ends",
  "notifications",
  "bytes",
  "records",
  "reading",
  "stops",
  "crashes",
  "stuck",
] as const;
export type ProblemKind = (typeof PROBLEM_KINDS)[number];

export interface Problem {
  readonly kind: ProblemKind;
  readonly what: string;
}

export interface FaultCounts {
  injections: number;
  /** Works that were alive when it was injected, or that it was for. */
  readonly met: Record<WorkKind, number>;
  readonly problems: Record<ProblemKind, number>;
}

export interface FoundProblem extends Problem {
  readonly seed: number;
  readonly batch: number;
  readonly work: string;
  readonly faults: readonly string[];
}

/** The counts of a soak, over all of its parts. */
export interface Tally {
  readonly faults: Record<string, FaultCounts>;
  works: number;
  stops: number;
  notifications: number;
  repeats: number;
  bytes: number;
  /** Runs with survivors whose record says so: `lost`, `unproven`. */
  unproven: number;
  worlds: number;
  seconds: number;
  found: FoundProblem[];
}

export function newTally(): Tally {
  return {
    faults: {},
    works: 0,
    stops: 0,
    notifications: 0,
    repeats: 0,
    bytes: 0,
    unproven: 0,
    worlds: 0,
    seconds: 0,
    found: [],
  };
}

export function countsOf(tally: Tally, fault: string): FaultCounts {
  return (tally.faults[fault] ??= {
    injections: 0,
    met: Object.fromEntries(WORK_KINDS.map((kind) => [kind, 0])) as Record<WorkKind, number>,
    problems: Object.fromEntries(PROBLEM_KINDS.map((kind) => [kind, 0])) as Record<ProblemKind, number>,
  });
}

export function injectionsOf(tally: Tally): number {
  return Object.values(tally.faults).reduce((sum, { injections }) => sum + injections, 0);
}

/** Counts a problem for the last fault that its work met. */
export function addProblem(tally: Tally, problem: FoundProblem): void {
  countsOf(tally, problem.faults.at(-1) ?? "no fault").problems[problem.kind] += 1;
  tally.found.push(problem);
}

/** The column of a problem that a work states about itself. */
export function kindOfProblem(what: string): ProblemKind {
  if (what.startsWith("wrong bytes")) return "bytes";
  if (what.startsWith("stuck")) return "stuck";
  return "ends";
}
