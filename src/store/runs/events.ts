import { type Compilable, type InsertObject, type Kysely, type Selectable, sql } from "kysely";
import type { NewRunEvent, RunEvent } from "../../model/run-event.js";
import type { RunEventRow, Schema } from "../schema.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";

function toRunEventColumns(event: NewRunEvent): InsertObject<Schema, "run_events"> {
  return {
    run_id: event.runId,
    // The state directory of the run, not of the writer.
    state_id: sql<string | null>`(select state_id from runs where run_id = ${event.runId})`,
    type: event.type,
    at: event.at,
    root_pid: event.rootPid,
    descendants: event.descendants,
    data: JSON.stringify(event.data),
  };
}

export function toRunEvent(row: Selectable<RunEventRow>): RunEvent {
  return {
    seq: row.seq,
    runId: row.run_id,
    type: row.type,
    at: row.at,
    rootPid: row.root_pid,
    descendants: row.descendants,
    data: JSON.parse(row.data) as unknown,
    // Type and data were written together, and events never change.
  } as RunEvent;
}

/** Rows deleted by one write: few enough not to delay it noticeably. */
const PRUNED_AT_ONCE = 100;

/** Larger if state directories share a table: finding the oldest event of one reads the numbers of all its events. */
const PRUNED_AT_ONCE_SHARED = 1_000;

/** A statement can have 32,766 parameters. A smaller number also means fewer prepared statements. */
const INSERTED_AT_ONCE = 100;

/** Writes events in the transaction of the change that they report. */
export interface EventLog {
  /** Executes `step`; if it changed something, appends the events in the same transaction. Returns whether it did. */
  write(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean>;
  /** The same for a step of several statements, which needs a transaction even without events. */
  writeInTransaction(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean>;
  /** Appends events within a transaction. The caller notifies the readers after the commit. */
  append(events: readonly NewRunEvent[]): Steps<void>;
}

/** `kept`: how many events of one state directory are kept. */
export function eventLog(engine: SqlEngine, kept: number): EventLog {
  const append = (events: readonly NewRunEvent[]): Steps<void> =>
    appendRunEvents(engine.db, events, { kept, shared: engine.dialect.shared });
  const writeInTransaction: EventLog["writeInTransaction"] = async (events, step) => {
    const written = await engine.transact(function* () {
      const changed = yield* step();
      if (changed) yield* append(events);
      return changed;
    });
    if (written && events.length > 0) engine.notifyEvents();
    return written;
  };
  return {
    append,
    writeInTransaction,
    // One statement is a transaction by itself.
    write: (events, step) => (events.length === 0 ? engine.perform(step) : writeInTransaction(events, step)),
  };
}

interface RunEventRetention {
  /** How many events of one state directory are kept. */
  readonly kept: number;
  /** The table holds events of several state directories. */
  readonly shared: boolean;
}

/**
 * Inserts events and, from time to time, deletes the oldest, so that never more than `kept` are committed. In a shared
 * table each state directory deletes only its own events, and may keep a few hundred more.
 */
function* appendRunEvents(
  db: Kysely<Schema>,
  events: readonly NewRunEvent[],
  { kept, shared }: RunEventRetention,
): Steps<void> {
  if (events.length === 0) return;
  let last = 0;
  const states = new Set<string | null>();
  for (let at = 0; at < events.length; at += INSERTED_AT_ONCE) {
    const rows = events.slice(at, at + INSERTED_AT_ONCE).map(toRunEventColumns);
    const inserted = yield* fetchRows(
      db.insertInto("run_events").values(rows).returning(["seq", "state_id"]),
    );
    for (const { seq, state_id } of inserted) {
      last = Math.max(last, seq);
      states.add(state_id);
    }
  }
  const most = shared ? PRUNED_AT_ONCE_SHARED : PRUNED_AT_ONCE;
  const step = Math.max(1, Math.min(most, Math.floor(kept / 100)));
  // Counted by sequence number, not by process: many short-lived supervisors share one table.
  const due = Math.floor(last / step) > Math.floor((last - events.length) / step);
  if (!due) return;
  if (!shared) yield* countChanged(db.deleteFrom("run_events").where("seq", "<=", last - kept + step - 1));
  else for (const state of states) yield* countChanged(deleteOldest(db, state, kept - step + 1));
}

/** Deletes all but the newest events of one state directory. */
function deleteOldest(db: Kysely<Schema>, state: string | null, kept: number): Compilable {
  const isIts = state === null ? sql<boolean>`state_id is null` : sql<boolean>`state_id = ${state}`;
  const newestForgotten = db
    .selectFrom("run_events")
    .select("seq")
    .where(isIts)
    .orderBy("seq", "desc")
    .limit(1)
    .offset(kept);
  return db.deleteFrom("run_events").where(isIts).where("seq", "<=", newestForgotten);
}
