import type { RunRecord, RunStateName } from "../../model/run.js";
import type { NewRun, RunChange } from "./store.js";

const RANK: Readonly<Record<RunStateName, number>> = { starting: 0, running: 1, exiting: 2, exited: 3 };

/** The record as it is inserted. */
export function newRunRecord(run: NewRun, leaseExpiresAt: number): RunRecord {
  return {
    ...run,
    anchor: null,
    root: null,
    processGroupId: null,
    boundary: null,
    tier: null,
    state: "starting",
    leaseExpiresAt,
    startedAt: null,
    lastOutputAt: null,
    updatedAt: run.createdAt,
    endedAt: null,
    exit: null,
    residue: [],
    residueCount: 0,
    usage: null,
    emptiness: null,
    hiddenAt: null,
  };
}

/** Applies a change to a record; `changeColumns` does the same to a row. */
export function applyRunChange(run: RunRecord, change: RunChange): RunRecord {
  switch (change.to) {
    case "gated": {
      const { anchor, root, processGroupId, boundary, tier } = change;
      return { ...run, anchor, root, processGroupId, boundary, tier };
    }
    case "weaker":
      return { ...run, tier: change.tier, boundary: change.boundary };
    case "running":
      return { ...run, state: laterState(run.state, "running"), startedAt: run.startedAt ?? change.at };
    case "output":
      return { ...run, lastOutputAt: change.at };
    case "service": {
      const { service, deadlines, policy } = change;
      return { ...run, kind: "service", service, deadlines, policy };
    }
    case "ready":
      return { ...run, service: change.service };
    case "exiting":
      return { ...run, state: laterState(run.state, "exiting") };
    case "exited": {
      const { at, exit, residue, residueCount, usage, emptiness, lastOutputAt = run.lastOutputAt } = change;
      const endedAt = Math.max(at, run.startedAt ?? run.createdAt);
      const ended = { state: "exited", endedAt, lastOutputAt } as const;
      return { ...run, ...ended, exit, residue, residueCount, usage, emptiness };
    }
  }
}

/** Order of the states of a run. */
export function runStateRank({ state }: Pick<RunRecord, "state">): number {
  return RANK[state];
}

function laterState(one: RunStateName, other: RunStateName): RunStateName {
  return RANK[one] > RANK[other] ? one : other;
}
