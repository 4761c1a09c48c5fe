import type { RunProcess } from "../api/types.js";

/** A live process, and the share of one CPU that it used since the reading before; null: it was not there before. */
export interface MeasuredProcess extends Omit<RunProcess, "ports"> {
  readonly ports: readonly number[];
  readonly cpuPercent: number | null;
}

/** Usage of all processes of a run at one time. */
export interface UsageSample {
  readonly at: number;
  readonly cpuPercent: number;
  readonly rssKb: number;
}

/** The last reading of the processes of a run, and those before it as sums. */
export interface RunUsage {
  readonly at: number;
  readonly processes: readonly MeasuredProcess[];
  readonly samples: readonly UsageSample[];
}

/** Two minutes at the usual interval. */
export const SAMPLES = 60;

/** Compares a reading with the one before: the counters of a process only grow. */
export function measure(
  before: RunUsage | undefined,
  read: readonly Omit<MeasuredProcess, "cpuPercent">[],
  at: number,
): RunUsage {
  const known = new Map(before?.processes.map((each) => [identityOf(each), each]));
  const elapsed = Math.max(1, at - (before?.at ?? at));
  const processes = read.map((each) => {
    const earlier = known.get(identityOf(each));
    const cpuPercent =
      earlier === undefined ? null : Math.max(0, ((each.cpuMs - earlier.cpuMs) / elapsed) * 100);
    return { ...each, cpuPercent };
  });
  const sample: UsageSample = {
    at,
    cpuPercent: processes.reduce((sum, each) => sum + (each.cpuPercent ?? 0), 0),
    rssKb: processes.reduce((sum, each) => sum + each.rssKb, 0),
  };
  // The first reading has nothing to compare with.
  const samples = before === undefined ? [] : [...before.samples, sample].slice(-SAMPLES);
  return { at, processes, samples };
}

function identityOf({ pid, startTime }: Pick<RunProcess, "pid" | "startTime">): string {
  return `${pid} ${startTime}`;
}

export interface TreeRow {
  readonly process: MeasuredProcess;
  readonly depth: number;
}

/** Parents before their children, each with its depth. */
export function flattenTree(processes: readonly MeasuredProcess[]): readonly TreeRow[] {
  const pids = new Set(processes.map(({ pid }) => pid));
  const children = new Map<number, MeasuredProcess[]>();
  for (const process of processes) {
    const parent = pids.has(process.parentPid) && process.parentPid !== process.pid ? process.parentPid : 0;
    children.set(parent, [...(children.get(parent) ?? []), process]);
  }
  const rows: TreeRow[] = [];
  const add = (parent: number, depth: number): void => {
    for (const process of children.get(parent) ?? []) {
      rows.push({ process, depth });
      add(process.pid, depth + 1);
    }
  };
  add(0, 0);
  return rows;
}
