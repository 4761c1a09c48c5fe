import { type Compilable, type Insertable, type Kysely, type RawBuilder, type Selectable, sql } from "kysely";
import type { NewRunEvent, RunEvent } from "../../model/run-event.js";
import type { RunEventRow, Schema } from "../schema.js";
import type { Placeholders } from "../sql/statement-cache.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";

const COLUMNS = ["run_id", "type", "at", "root_pid", "descendants", "data"] as const;

type EventColumns = Pick<Insertable<RunEventRow>, (typeof COLUMNS)[number]>;

export function toRunEventColumns(event: NewRunEvent): EventColumns {
  return {
    run_id: event.runId,
    type: event.type,
    at: event.at,
    root_pid: event.rootPid,
    descendants: event.descendants,
    data: JSON.stringify(event.data),
  };
}

/** Inserts these events, in this order. */
function insertRunEvents(
  { db, statements }: SqlEngine,
  events: readonly NewRunEvent[],
): Compilable<Pick<Selectable<RunEventRow>, "seq" | "state_id">> {
  // One value for each column of each event.
  const values = Object.fromEntries(
    events.flatMap((event, at) =>
      Object.entries(toRunEventColumns(event)).map(([column, value]) => [`${column} ${at}`, value]),
    ),
  );
  return statements.bind(`insert ${events.length} run events`, values, (places) => {
    const rows = events.map((_, at) => {
      const place = (column: string): RawBuilder<never> => places[`${column} ${at}`] as RawBuilder<never>;
      return {
        ...(Object.fromEntries(
          COLUMNS.map((column) => [column, place(column)]),
        ) as unknown as Placeholders<EventColumns>),
        // The state directory of the run, not of the writer.
        state_id: sql<string | null>`(select state_id from runs where run_id = ${place("run_id")})`,
      };
    });
    return db.insertInto("run_events").values(rows).returning(["seq", "state_id"]);
  });
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
  /** Like `write`, in a transaction that calls at the same time may share. */
  writeTogether(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean>;
  /** Like `write`, for a step that must survive power loss, or that has several statements. */
  writeDurably(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean>;
  /** Appends events within a transaction. The caller notifies the readers after the commit. */
  append(events: readonly NewRunEvent[]): Steps<void>;
  /** To be called after a statement that has committed events by itself: deletes old events if due, and notifies the readers. */
  committed(events: AppendedEvents): Promise<void>;
}

interface AppendedEvents {
  readonly count: number;
  /** The highest sequence number. */
  readonly last: number;
  readonly stateIds: ReadonlySet<string | null>;
}

/** `kept`: how many events of one state directory are kept. */
export function eventLog(engine: SqlEngine, kept: number): EventLog {
  const retention = { kept, shared: engine.dialect.shared };
  const append = (events: readonly NewRunEvent[]): Steps<void> => appendRunEvents(engine, events, retention);
  const withEvents = (events: readonly NewRunEvent[], step: () => Steps<boolean>) =>
    function* (): Steps<boolean> {
      const changed = yield* step();
      if (changed) yield* append(events);
      return changed;
    };
  const notify = (written: boolean, events: readonly NewRunEvent[]): boolean => {
    if (written && events.length > 0) engine.notifyEvents();
    return written;
  };
  return {
    append,
    async committed(events) {
      engine.notifyEvents();
      if (!isPruningDue(events, retention)) return;
      // The calls are committed, and must not be answered as failed. The next deletion includes these events.
      await engine.perform(() => pruneEvents(engine.db, events, retention)).catch(() => undefined);
    },
    write: async (events, step) =>
      // One statement is a transaction by itself.
      events.length === 0
        ? engine.perform(step)
        : notify(await engine.transact(withEvents(events, step)), events),
    writeTogether: async (events, step) =>
      notify(await engine.transactTogether(withEvents(events, step)), events),
    writeDurably: async (events, step) =>
      notify(await engine.transactDurably(withEvents(events, step)), events),
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
  engine: SqlEngine,
  events: readonly NewRunEvent[],
  retention: RunEventRetention,
): Steps<void> {
  if (events.length === 0) return;
  let last = 0;
  const stateIds = new Set<string | null>();
  for (let at = 0; at < events.length; at += INSERTED_AT_ONCE) {
    const inserted = yield* fetchRows(insertRunEvents(engine, events.slice(at, at + INSERTED_AT_ONCE)));
    for (const { seq, state_id } of inserted) {
      last = Math.max(last, seq);
      stateIds.add(state_id);
    }
  }
  const appended = { count: events.length, last, stateIds };
  if (isPruningDue(appended, retention)) yield* pruneEvents(engine.db, appended, retention);
}

/** Counted by sequence number, not by process: many short-lived supervisors share one table. */
function isPruningDue({ count, last }: AppendedEvents, retention: RunEventRetention): boolean {
  const step = pruningStep(retention);
  return Math.floor(last / step) > Math.floor((last - count) / step);
}

function pruningStep({ kept, shared }: RunEventRetention): number {
  return Math.max(1, Math.min(shared ? PRUNED_AT_ONCE_SHARED : PRUNED_AT_ONCE, Math.floor(kept / 100)));
}

function* pruneEvents(
  db: Kysely<Schema>,
  { last, stateIds }: AppendedEvents,
  retention: RunEventRetention,
): Steps<void> {
  const { kept, shared } = retention;
  const step = pruningStep(retention);
  if (!shared) yield* countChanged(db.deleteFrom("run_events").where("seq", "<=", last - kept + step - 1));
  else for (const state of stateIds) yield* countChanged(deleteOldest(db, state, kept - step + 1));
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
