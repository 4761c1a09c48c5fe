import { sql } from "kysely";
import type { InsertObject, Selectable } from "kysely";
import type { NewRunEvent, RunEvent } from "../model/run-event.js";
import type { RunEventTable, Schema } from "./schema.js";

export function toRunEventColumns(event: NewRunEvent): InsertObject<Schema, "run_events"> {
  return {
    run_id: event.runId,
    // Whoever writes it: an event is of where its run is.
    state_id: sql<string | null>`(select state_id from runs where run_id = ${event.runId})`,
    type: event.type,
    at: event.at,
    root_pid: event.rootPid,
    descendants: event.descendants,
    data: JSON.stringify(event.data),
  };
}

export function toRunEvent(row: Selectable<RunEventTable>): RunEvent {
  return {
    seq: row.seq,
    runId: row.run_id,
    type: row.type,
    at: row.at,
    rootPid: row.root_pid,
    descendants: row.descendants,
    data: JSON.parse(row.data) as unknown,
    // Type and data were written together by `toEventRow`, and rows of events never change.
  } as RunEvent;
}
