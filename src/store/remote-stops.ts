import { type Compilable, type Kysely, type Selectable, sql } from "kysely";
import type { Survivor } from "../model/process.js";
import type { NewRemoteStop, RemoteStop, RemoteStopResult } from "../model/gateway.js";
import type { NewRunEvent } from "../model/run-event.js";
import type { RemoteStopTable, Schema } from "./schema.js";
import type { SqlDialect } from "./sql/engine.js";

/** A literal, not a parameter: only so can the index of those that wait serve. */
const isOpen = sql<boolean>`done_at is null`;

export function insertRemoteStop(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  command: NewRemoteStop,
): Compilable {
  const { id, runId, target, kind, actor, graceMs, handedOverBy } = command;
  return db
    .insertInto("commands")
    .values({
      id,
      run_id: runId,
      target,
      kind,
      actor,
      grace_ms: graceMs === null ? null : Math.round(graceMs),
      handed_over_by: handedOverBy,
      created_at: dialect.now(),
      accepted_at: null,
      done_at: null,
      outcome: null,
      survivors: "[]",
      error: null,
    })
    .onConflict((conflict) => conflict.column("id").doNothing());
}

export function acceptRemoteStop(db: Kysely<Schema>, dialect: SqlDialect, id: string): Compilable {
  return db
    .updateTable("commands")
    .set({ accepted_at: dialect.now() })
    .where("id", "=", id)
    .where("accepted_at", "is", null)
    .where(isOpen);
}

export function finishRemoteStop(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  id: string,
  { outcome, survivors, error }: RemoteStopResult,
): Compilable {
  return db
    .updateTable("commands")
    .set({ done_at: dialect.now(), outcome, survivors: JSON.stringify(survivors), error })
    .where("id", "=", id)
    .where(isOpen);
}

export function deleteRemoteStops(db: Kysely<Schema>, dialect: SqlDialect, olderThanMs: number): Compilable {
  return db
    .deleteFrom("commands")
    .where("created_at", "<", sql<number>`${dialect.now()} - ${Math.ceil(olderThanMs)}`);
}

export async function getRemoteStop(db: Kysely<Schema>, id: string): Promise<RemoteStop | null> {
  const row = await db.selectFrom("commands").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? null : toRemoteStop(row);
}

export async function listRemoteStops(
  db: Kysely<Schema>,
  targets: readonly string[],
): Promise<readonly RemoteStop[]> {
  const rows = await db
    .selectFrom("commands")
    .selectAll()
    .where("target", "in", targets)
    .where(isOpen)
    .orderBy("created_at")
    .orderBy("id")
    .execute();
  return rows.map(toRemoteStop);
}

export async function listRemoteStopsOfRun(
  db: Kysely<Schema>,
  runId: string,
): Promise<readonly RemoteStop[]> {
  const rows = await db
    .selectFrom("commands")
    .selectAll()
    .where("run_id", "=", runId)
    .where(isOpen)
    .orderBy("created_at")
    .orderBy("id")
    .execute();
  return rows.map(toRemoteStop);
}

function toRemoteStop(row: Selectable<RemoteStopTable>): RemoteStop {
  return {
    id: row.id,
    runId: row.run_id,
    target: row.target,
    kind: row.kind,
    actor: row.actor,
    graceMs: row.grace_ms,
    handedOverBy: row.handed_over_by,
    createdAt: row.created_at,
    acceptedAt: row.accepted_at,
    doneAt: row.done_at,
    outcome: row.outcome,
    survivors: JSON.parse(row.survivors) as Survivor[],
    error: row.error,
  };
}

/** What gateways ask of each other, whether or not they are there at the same time. */
export interface RemoteStopStore {
  /** Hand it over, and wake its target. False, and nothing written: there is one of this id. */
  insertRemoteStop(command: NewRemoteStop, events: readonly NewRunEvent[]): Promise<boolean>;
  getRemoteStop(id: string): Promise<RemoteStop | null>;
  /** Those for one of these that are not done, oldest first. */
  listRemoteStops(targets: readonly string[]): Promise<readonly RemoteStop[]>;
  /** Those about this run that are not done, oldest first. */
  listRemoteStopsOfRun(runId: string): Promise<readonly RemoteStop[]>;
  /** Its target has it. */
  acceptRemoteStop(id: string): Promise<void>;
  /** What came of it, with its event. False, and nothing written: that has been said. */
  finishRemoteStop(id: string, result: RemoteStopResult, events: readonly NewRunEvent[]): Promise<boolean>;
  /** Forget those that are older on the store's clock, done or not. Returns how many. */
  deleteRemoteStops(olderThanMs: number): Promise<number>;
}
