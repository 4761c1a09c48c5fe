import { sql, type UpdateObject } from "kysely";
import { runTable, type Schema } from "../schema.js";
import type { RunChange } from "./store.js";

const STARTED = sql<number>`coalesce(started_at, created_at)`;

type RunUpdate = UpdateObject<Schema, "runs">;

/**
 * The columns that one change writes; `applyRunChange` does the same to a record. Only rows that have not exited are
 * updated, so each expression must be right for `starting`, `running` and `exiting` only.
 */
export function changeColumns(change: RunChange, updatedAt: number): RunUpdate {
  return { ...changedColumns(change), updated_at: updatedAt };
}

function changedColumns(change: RunChange): RunUpdate {
  switch (change.to) {
    case "gated": {
      // The state stays: before GO the run is `starting`, and a stop may already have made it `exiting`.
      const { anchor, root, processGroupId, boundary, tier } = change;
      return runTable.toColumns({ anchor, root, processGroupId, boundary, tier });
    }
    case "weaker":
      return runTable.toColumns({ tier: change.tier, boundary: change.boundary });
    case "running":
      return {
        // The start may be reported after the stop; then the state stays.
        state: sql`case when state = 'starting' then 'running' else state end`,
        // Reported twice (after a reattach), the first time is the start.
        started_at: sql`coalesce(started_at, ${change.at})`,
      };
    case "output":
      return { last_output_at: change.at };
    case "service": {
      const { service, deadlines, policy } = change;
      return runTable.toColumns({ kind: "service", service, deadlines, policy });
    }
    case "ready":
      return runTable.toColumns({ service: change.service });
    case "exiting":
      return { state: "exiting" };
    case "exited": {
      const { at, lastOutputAt, exit, residue, residueCount, usage, emptiness } = change;
      return {
        ...runTable.toColumns({ state: "exited", exit, residue, residueCount, usage, emptiness }),
        // The wall clock may have been set back: an end before the start is never recorded.
        ended_at: sql`case when ${at} < ${STARTED} then ${STARTED} else ${at} end`,
        ...(lastOutputAt === undefined ? {} : { last_output_at: lastOutputAt }),
      };
    }
  }
}
