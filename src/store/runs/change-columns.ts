import { sql } from "kysely";
import type { UpdateObject } from "kysely";
import type { Schema } from "../schema.js";
import type { RunChange } from "./store.js";

const STARTED = sql<number>`coalesce(started_at, created_at)`;

type RunUpdate = UpdateObject<Schema, "runs">;

/**
 * What one step writes. Only rows that have not exited are ever updated, so each expression
 * needs to be right for `starting`, `running` and `exiting` only.
 */
export function changeColumns(change: RunChange, updatedAt: number): RunUpdate {
  switch (change.to) {
    case "gated":
      // The state stays: before GO the run is `starting`, and a stop may already have made it `exiting`.
      return {
        anchor_pid: change.anchor.pid,
        anchor_start_time: change.anchor.startTime,
        anchor_unique_id: change.anchor.uniqueId,
        root_pid: change.root.pid,
        root_start_time: change.root.startTime,
        root_unique_id: change.root.uniqueId,
        process_group_id: change.processGroupId,
        boundary: JSON.stringify(change.boundary),
        tier: change.tier,
        updated_at: updatedAt,
      };
    case "weaker":
      return { tier: change.tier, boundary: JSON.stringify(change.boundary), updated_at: updatedAt };
    case "running":
      return {
        // A step back: the news of the start may come after the stop.
        state: sql`case when state = 'starting' then 'running' else state end`,
        // Told twice (a re-attach), the first time is when it started.
        started_at: sql`coalesce(started_at, ${change.at})`,
        updated_at: updatedAt,
      };
    case "output":
      return { last_output_at: change.at, updated_at: updatedAt };
    case "service":
      return {
        kind: "service",
        service: JSON.stringify(change.service),
        deadlines: JSON.stringify(change.deadlines),
        policy: JSON.stringify(change.policy),
        updated_at: updatedAt,
      };
    case "ready":
      return { service: JSON.stringify(change.service), updated_at: updatedAt };
    case "exiting":
      return { state: "exiting", updated_at: updatedAt };
    case "exited":
      return {
        state: "exited",
        // The wall clock may have been set back: an end before the start is never recorded.
        ended_at: sql`case when ${change.at} < ${STARTED} then ${STARTED} else ${change.at} end`,
        ...(change.lastOutputAt === undefined ? {} : { last_output_at: change.lastOutputAt }),
        exit_reason: change.exit.reason,
        exit_actor: change.exit.actor,
        exit_code: change.exit.code,
        exit_signal: change.exit.signal,
        exit_source: change.exit.source,
        exit_detail: change.exit.detail,
        exit_errno: change.exit.errno,
        exit_limit: change.exit.limitHit,
        residue: JSON.stringify(change.residue),
        residue_count: change.residueCount,
        usage: change.usage === null ? null : JSON.stringify(change.usage),
        emptiness: change.emptiness,
        updated_at: updatedAt,
      };
  }
}
