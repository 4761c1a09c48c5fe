import type { Kysely } from "kysely";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import type { SessionScope } from "../../model/session.js";
import type { Schema } from "../schema.js";
import { isSessionInScope } from "../sessions/queries.js";
import { equals, type SqlDialect } from "../sql/engine.js";
import type { EventFilter } from "./contract.js";
import { toRunEvent } from "./event-log.js";

/** No events after `settled`: events with smaller numbers may still be committed. */
export async function listEvents(
  db: Kysely<Schema>,
  settled: number | null,
  filter: EventFilter,
): Promise<readonly RunEvent[]> {
  return (await selectEvents(db, settled, filter).selectAll().execute()).map(toRunEvent);
}

export async function listScopedEvents(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  settled: number | null,
  scope: SessionScope,
  filter: EventFilter,
): Promise<readonly (RunEvent | HiddenEvent)[]> {
  const found = await listEvents(db, settled, filter);
  const runIds = [...new Set(found.map(({ runId }) => runId))];
  if (runIds.length === 0) return [];
  // One row per run, not per event: a run has many events, and its record may be large.
  const rows = await db
    .selectFrom("runs")
    .innerJoin("sessions", "sessions.id", "runs.session_id")
    .select("runs.run_id")
    .where("runs.run_id", "in", runIds)
    .where(isSessionInScope(dialect, scope))
    .execute();
  const seen = new Set(rows.map(({ run_id }) => run_id));
  return found.map((event) => {
    if (seen.has(event.runId)) return event;
    const { seq, runId, at } = event;
    return { type: "hidden", seq, runId, at };
  });
}

function selectEvents(db: Kysely<Schema>, settled: number | null, filter: EventFilter) {
  const { after, runId, stateId, hostIds, limit, newestFirst = false } = filter;
  let query = db
    .selectFrom("run_events")
    .where(equals("run_events", { run_id: runId, state_id: stateId }))
    .orderBy("seq", newestFirst ? "desc" : "asc");
  if (settled !== null) query = query.where("seq", "<=", settled);
  if (after !== undefined) query = query.where("seq", ">", after);
  if (hostIds !== undefined)
    query = query.where("run_id", "in", (of) =>
      of
        .selectFrom("runs")
        .select("runs.run_id")
        .where(equals("runs", { host_id: hostIds })),
    );
  return limit === undefined ? query : query.limit(limit);
}
