import { sql } from "kysely";
import type { Compilable, Kysely, Selectable } from "kysely";
import type { CommandRecord, CommandResult, NewCommand } from "../command-record.js";
import type { Survivor } from "../../anchor/host.js";
import type { CommandTable, Schema } from "../schema.js";
import type { Words } from "./engine.js";

/** A literal, not a parameter: only so can the index of those that wait serve. */
const waiting = sql<boolean>`done_at is null`;

export function insertCommand(db: Kysely<Schema>, words: Words, command: NewCommand): Compilable {
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
      created_at: words.now(),
      accepted_at: null,
      done_at: null,
      outcome: null,
      survivors: "[]",
      error: null,
    })
    .onConflict((conflict) => conflict.column("id").doNothing());
}

export function acceptCommand(db: Kysely<Schema>, words: Words, id: string): Compilable {
  return db
    .updateTable("commands")
    .set({ accepted_at: words.now() })
    .where("id", "=", id)
    .where("accepted_at", "is", null)
    .where(waiting);
}

export function finishCommand(
  db: Kysely<Schema>,
  words: Words,
  id: string,
  { outcome, survivors, error }: CommandResult,
): Compilable {
  return db
    .updateTable("commands")
    .set({ done_at: words.now(), outcome, survivors: JSON.stringify(survivors), error })
    .where("id", "=", id)
    .where(waiting);
}

export function forgetCommands(db: Kysely<Schema>, words: Words, olderThanMs: number): Compilable {
  return db
    .deleteFrom("commands")
    .where("created_at", "<", sql<number>`${words.now()} - ${Math.ceil(olderThanMs)}`);
}

export async function getCommand(db: Kysely<Schema>, id: string): Promise<CommandRecord | null> {
  const row = await db.selectFrom("commands").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? null : toCommand(row);
}

export async function listCommands(
  db: Kysely<Schema>,
  targets: readonly string[],
): Promise<readonly CommandRecord[]> {
  const rows = await db
    .selectFrom("commands")
    .selectAll()
    .where("target", "in", targets)
    .where(waiting)
    .orderBy("created_at")
    .orderBy("id")
    .execute();
  return rows.map(toCommand);
}

export async function commandsOf(db: Kysely<Schema>, runId: string): Promise<readonly CommandRecord[]> {
  const rows = await db
    .selectFrom("commands")
    .selectAll()
    .where("run_id", "=", runId)
    .where(waiting)
    .orderBy("created_at")
    .orderBy("id")
    .execute();
  return rows.map(toCommand);
}

function toCommand(row: Selectable<CommandTable>): CommandRecord {
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
