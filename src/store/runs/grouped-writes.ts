import { type RawBuilder, sql } from "kysely";
import type { NewRunEvent } from "../../model/run-event.js";
import { runTable, type RunRow } from "../schema.js";
import { fetchRows, type SqlEngine } from "../sql/engine.js";
import { assignments, columnList, type RowSet, rowSet, type RowSetValues } from "../sql/row-set.js";
import { newRunRecord } from "./apply-change.js";
import { changeValues, computedColumns } from "./change-columns.js";
import type { GatedRunChange, Lease, NewRun, RunChange } from "./contract.js";
import { toRunEventColumns } from "./event-log.js";

// PostgreSQL only: one statement for the same write of many runs, with their events.

export interface NewRunCall {
  readonly run: NewRun;
  readonly leaseMs: number;
  readonly gated: GatedRunChange | undefined;
  readonly events: readonly NewRunEvent[];
}

export interface RunChangeCall {
  readonly lease: Lease;
  readonly change: RunChange;
  readonly events: readonly NewRunEvent[];
}

type ChangedRow = Pick<RunRow, "run_id" | "state_id">;

export interface WrittenRuns<Row = ChangedRow> {
  /** By run id. */
  readonly rows: ReadonlyMap<string, Row>;
  /** State directories of the runs. */
  readonly stateIds: ReadonlySet<string | null>;
  /** The highest number of the events; null: there are none. */
  readonly lastEvent: number | null;
}

/** Inserts runs. Those whose id is taken are left out. */
export function insertRunsTogether(engine: SqlEngine, calls: readonly NewRunCall[]): Promise<WrittenRuns> {
  const { dialect } = engine;
  const rows = calls.map(({ run, leaseMs, gated }) => {
    const { lease_expires_at: _, ...row } = runTable.toColumns(newRunRecord(run, 0, gated));
    return { ...row, lease_ms: Math.ceil(leaseMs) };
  });
  const given = rowSet("given", "runs", rows, { lease_ms: "bigint" });
  const columns = given.columns.filter((column) => column !== "lease_ms");
  return executeWithEvents(
    engine,
    "insert runs",
    given,
    eventsOf(calls, ({ run }) => run.runId),
    (from) => sql`
    insert into runs (${columnList(columns)}, lease_expires_at)
    select ${columnList(columns, "given")}, ${dialect.now()} + given.lease_ms from ${from}
    on conflict (run_id) do nothing
    returning runs.run_id, runs.state_id`,
  );
}

/** Changes runs, all in the same columns. Those that have ended or have another owner or epoch are left out. */
export function changeRunsTogether(engine: SqlEngine, calls: readonly RunChangeCall[]): Promise<WrittenRuns> {
  return changeTogether(engine, calls, sql`runs.run_id, runs.state_id`);
}

/** The same, and returns whole rows. */
export function finalizeRunsTogether(
  engine: SqlEngine,
  calls: readonly RunChangeCall[],
): Promise<WrittenRuns<RunRow>> {
  return changeTogether<RunRow>(engine, calls, sql`runs.*`);
}

function changeTogether<Row extends ChangedRow>(
  engine: SqlEngine,
  calls: readonly RunChangeCall[],
  returned: RawBuilder<unknown>,
): Promise<WrittenRuns<Row>> {
  const to = calls[0]?.change.to ?? "output";
  const rows = calls.map(({ lease, change }) => ({
    ...changeValues(change),
    of_run: lease.runId,
    of_owner: lease.ownerInstanceId,
    of_epoch: lease.epoch,
  }));
  const given = rowSet("given", "runs", rows, {
    at: "bigint",
    started: "bigint",
    of_run: "text",
    of_owner: "text",
    of_epoch: "bigint",
  });
  const columns = given.columns.filter(
    (column) => column !== "at" && column !== "started" && !column.startsWith("of_"),
  );
  const computed = computedColumns(to, sql<number>`given.at`, sql<number | null>`given.started`);
  const plain = columns.filter((column) => !(column in computed));
  const set = Object.entries(computed).map(([column, value]) => sql`${sql.ref(column)} = ${value}`);
  return executeWithEvents(
    engine,
    `change runs: ${to}`,
    given,
    eventsOf(calls, ({ lease }) => lease.runId),
    (from) => sql`
    update runs set ${sql.join([...assignments(plain, "given"), ...set])} from ${from}
    where runs.run_id = given.of_run and runs.owner_instance_id = given.of_owner
      and runs.lease_epoch = given.of_epoch and runs.state <> 'exited'
    returning ${returned}`,
  );
}

function eventsOf<Call extends { readonly events: readonly NewRunEvent[] }>(
  calls: readonly Call[],
  runOf: (call: Call) => string,
): readonly Readonly<Record<string, unknown>>[] {
  return calls
    .flatMap((call) => call.events.map((event) => ({ ...toRunEventColumns(event), of_run: runOf(call) })))
    .map((row, place) => ({ ...row, place }));
}

/** Appends the events of the runs that `write` returns, in their order. */
async function executeWithEvents<Row extends ChangedRow>(
  engine: SqlEngine,
  name: string,
  given: RowSet,
  events: readonly Readonly<Record<string, unknown>>[],
  write: (from: RawBuilder<unknown>) => RawBuilder<unknown>,
): Promise<WrittenRuns<Row>> {
  const { db, statements } = engine;
  const event = rowSet("event", "run_events", events, { of_run: "text", place: "bigint" });
  const shape = `${name}: ${given.columns.join(" ")}${events.length > 0 ? ", with events" : ""}`;
  const values: RowSetValues = { ...given.values, ...event.values };
  type EventfulRow = Row & { readonly last_event: number | null };
  const statement = statements.bind<EventfulRow, RowSetValues>(shape, values, (places) => {
    const changed = sql`changed as (${write(given.from(places))})`;
    const query =
      events.length === 0
        ? sql<EventfulRow>`with ${changed} select changed.*, null::bigint as last_event from changed`
        : sql<EventfulRow>`with ${changed}, written as (
            insert into run_events (run_id, state_id, type, at, root_pid, descendants, data)
            select event.run_id,
              -- The state directory of the run, not of the writer.
              case when event.run_id = changed.run_id then changed.state_id
                else (select runs.state_id from runs where runs.run_id = event.run_id) end,
              event.type, event.at, event.root_pid, event.descendants, event.data
            from ${event.from(places)} join changed on changed.run_id = event.of_run
            order by event.place
            returning seq
          ) select changed.*, (select max(seq) from written) as last_event from changed`;
    return { compile: () => query.compile(db) };
  });
  const rows = await engine.perform(() => fetchRows(statement));
  return {
    rows: new Map(rows.map((row) => [row.run_id, row])),
    stateIds: new Set(rows.map(({ state_id }) => state_id)),
    lastEvent: rows[0]?.last_event ?? null,
  };
}
