import type { RunRecord, RunStateName } from "../../model/run.js";
import { type GatedRunChange, type NewRun, type RunChange, UNSTARTED } from "./contract.js";

const RANK: Readonly<Record<RunStateName, number>> = { starting: 0, running: 1, exiting: 2, exited: 3 };

/** The record as it is inserted. */
export function newRunRecord(run: NewRun, leaseExpiresAt: number, gated?: GatedRunChange): RunRecord {
  const state = { ...UNSTARTED, leaseExpiresAt, updatedAt: run.createdAt };
  // Spreading objects with so many fields into a literal takes V8 twenty times as long.
  return Object.assign({}, run, state, gated === undefined ? {} : changedFields(gated));
}

/** The fields that a change sets whatever the record was before. */
export function changedFields(change: RunChange): Partial<RunRecord> {
  switch (change.to) {
    case "gated": {
      // The state stays: before GO the run is `starting`, and a stop may already have made it `exiting`.
      const { anchor, root, processGroupId, boundary, tier } = change;
      return { anchor, root, processGroupId, boundary, tier };
    }
    case "weaker":
      return { tier: change.tier, boundary: change.boundary };
    case "output":
      return { lastOutputAt: change.at };
    case "service": {
      const { service, deadlines, policy } = change;
      return { kind: "service", service, deadlines, policy };
    }
    case "ready":
      return { service: change.service };
    case "running":
    case "exiting":
      return {};
    case "exited": {
      const { exit, residue, residueCount, usage, emptiness, lastOutputAt } = change;
      const ended = { state: "exited", exit, residue, residueCount, usage, emptiness } as const;
      return lastOutputAt === undefined ? ended : { ...ended, lastOutputAt };
    }
  }
}

/** Applies a change to a record; `changeColumns` (writes.ts) does the same to a row. */
export function applyRunChange(run: RunRecord, change: RunChange): RunRecord {
  const changed = { ...run, ...changedFields(change) };
  if (change.to === "running")
    return { ...changed, state: laterState(run.state, "running"), startedAt: run.startedAt ?? change.at };
  if (change.to === "exiting") return { ...changed, state: laterState(run.state, "exiting") };
  if (change.to !== "exited") return changed;
  const startedAt = run.startedAt ?? change.startedAt ?? null;
  return { ...changed, startedAt, endedAt: Math.max(change.at, startedAt ?? run.createdAt) };
}

/** Order of the states of a run. */
export function runStateRank({ state }: Pick<RunRecord, "state">): number {
  return RANK[state];
}

function laterState(one: RunStateName, other: RunStateName): RunStateName {
  return RANK[one] > RANK[other] ? one : other;
}
