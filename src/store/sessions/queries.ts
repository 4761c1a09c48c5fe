import { type Kysely, type RawBuilder, sql } from "kysely";
import type { Approval, SessionRecord, SessionScope } from "../../model/session.js";
import { approvalTable, type Schema, sessionTable } from "../schema.js";
import type { Reader, SqlDialect } from "../sql/engine.js";
import type { ApprovalFilter, SessionFilter, SessionReads } from "./store.js";

/** Whether a row of `sessions` is in the scope. A property test compares it with canSeeSessionRow. */
export function isSessionInScope(
  dialect: SqlDialect,
  { sessionId, descendants, agentIds }: SessionScope,
): RawBuilder<boolean> {
  if (agentIds === "any") return sql<boolean>`true`;
  const parts = [sql<boolean>`sessions.id = ${sessionId}`];
  if (descendants)
    parts.push(
      sql`exists (select 1 from ${dialect.jsonItems("sessions.lineage")} as ancestor where ancestor.value = ${sessionId})`,
    );
  if (agentIds.length > 0) parts.push(sql`sessions.agent_id in (${sql.join(agentIds)})`);
  return sql<boolean>`(${sql.join(parts, sql` or `)})`;
}

/** Whether a column names a session in the scope. The sessions are read once for the whole statement. */
export function isColumnInScope(
  dialect: SqlDialect,
  column: string,
  scope: SessionScope,
): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(column)} in (select sessions.id from sessions where ${isSessionInScope(dialect, scope)})`;
}

/** Literals, not parameters, so that the partial indexes are used. */
const open = sql<boolean>`closed_at is null`;
const closed = sql<boolean>`closed_at is not null`;
const pending = sql<boolean>`verdict is null`;
const decided = sql<boolean>`verdict is not null`;

export function sessionQueries(reader: Reader): SessionReads {
  return {
    getSession: (id) => reader.read((db) => getSession(db, id), null),
    getSessionByKey: (key) => reader.read((db) => getSessionByKey(db, key), null),
    listSessions: (filter) => reader.read((db) => listSessions(db, reader.dialect, filter), []),
    storedBytesOfSession: (sessionId) => reader.read((db) => storedBytesOfSession(db, sessionId), 0),
    resolveToken: (hash, now) => reader.read((db) => resolveToken(db, hash, now), null),
    findTokenHash: (prefix) => reader.read((db) => findTokenHash(db, prefix), null),
    getApproval: (id) => reader.read((db) => getApproval(db, id), null),
    listApprovals: (filter) => reader.read((db) => listApprovals(db, filter), []),
  };
}

async function getSession(db: Kysely<Schema>, id: string): Promise<SessionRecord | null> {
  const row = await db.selectFrom("sessions").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? null : sessionTable.toRecord(row);
}

async function getSessionByKey(db: Kysely<Schema>, key: string): Promise<SessionRecord | null> {
  const row = await db
    .selectFrom("sessions")
    .selectAll()
    .where("key", "=", key)
    .where(open)
    .executeTakeFirst();
  return row === undefined ? null : sessionTable.toRecord(row);
}

async function listSessions(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: SessionFilter,
): Promise<readonly SessionRecord[]> {
  let query = db.selectFrom("sessions").selectAll().orderBy("created_at", "desc").orderBy("id", "desc");
  if (filter.open !== undefined) query = query.where(filter.open ? open : closed);
  if (filter.agentId !== undefined) query = query.where("agent_id", "=", filter.agentId);
  if (filter.backend !== undefined) query = query.where("backend", "=", filter.backend);
  if (filter.agentSessionId !== undefined)
    query = query.where("agent_session_id", "=", filter.agentSessionId);
  if (filter.key !== undefined) query = query.where("key", "=", filter.key);
  if (filter.seenBy !== undefined) query = query.where(isSessionInScope(dialect, filter.seenBy));
  if (filter.idleSince !== undefined) {
    const { idleSince } = filter;
    query = query
      .where("created_at", "<", idleSince)
      .where(
        sql<boolean>`not exists (select 1 from session_messages where session_id = sessions.id and at >= ${idleSince})`,
      );
  }
  if (filter.limit !== undefined) query = query.limit(filter.limit);
  return (await query.execute()).map((row) => sessionTable.toRecord(row));
}

/** Whether the run of a token is open. Derived from the run's record, so it does not depend on which gateway recorded the end. */
export const runIsOpen = sql<boolean>`exists (
  select 1 from runs where runs.run_id = session_tokens.run_id and runs.state <> 'exited'
)`;

async function resolveToken(db: Kysely<Schema>, hash: string, now: number): Promise<SessionRecord | null> {
  const row = await db
    .selectFrom("session_tokens")
    .innerJoin("sessions", "sessions.id", "session_tokens.session_id")
    .selectAll("sessions")
    .where("session_tokens.hash", "=", hash)
    .where(sql<boolean>`(session_tokens.expires_at is null or session_tokens.expires_at > ${now})`)
    .where(sql<boolean>`(session_tokens.run_id is null or session_tokens.run_id = '' or ${runIsOpen})`)
    .where(open)
    .executeTakeFirst();
  return row === undefined ? null : sessionTable.toRecord(row);
}

async function findTokenHash(db: Kysely<Schema>, prefix: string): Promise<string | null> {
  const row = await db
    .selectFrom("session_tokens")
    .innerJoin("sessions", "sessions.id", "session_tokens.session_id")
    .select("session_tokens.hash")
    // A range of the primary key. `g` follows every hexadecimal digit, in every collation.
    .where("session_tokens.hash", ">=", prefix)
    .where("session_tokens.hash", "<", `${prefix}g`)
    .where(open)
    .executeTakeFirst();
  return row?.hash ?? null;
}

/** Estimated bytes of a row besides its texts of unlimited length. */
const ROW_BYTES = 2_000;

async function storedBytesOfSession(db: Kysely<Schema>, sessionId: string): Promise<number> {
  const bytes = (columns: readonly string[]): RawBuilder<number> =>
    sql<number>`cast(coalesce(sum(${sql.join(
      columns.map((column) => sql`coalesce(octet_length(${sql.ref(column)}), 0)`),
      sql` + `,
    )} + ${sql.lit(ROW_BYTES)}), 0) as bigint)`;
  const runs = db.selectFrom("runs").where("session_id", "=", sessionId);
  const tasks = db.selectFrom("tasks").where("owner_session_id", "=", sessionId);
  const [ofRuns, ofTasks] = [
    await runs.select(bytes(["labels", "command", "cwd", "residue"]).as("bytes")).executeTakeFirstOrThrow(),
    await tasks.select(bytes(["task_text", "summary", "error"]).as("bytes")).executeTakeFirstOrThrow(),
  ];
  return ofRuns.bytes + ofTasks.bytes;
}

async function getApproval(db: Kysely<Schema>, id: string): Promise<Approval | null> {
  const row = await db.selectFrom("approvals").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? null : approvalTable.toRecord(row);
}

async function listApprovals(db: Kysely<Schema>, filter: ApprovalFilter): Promise<readonly Approval[]> {
  let query = db.selectFrom("approvals").selectAll().orderBy("asked_at").orderBy("id");
  if (filter.pending !== undefined) query = query.where(filter.pending ? pending : decided);
  if (filter.sessionId !== undefined) query = query.where("session_id", "=", filter.sessionId);
  if (filter.gatewayInstanceId !== undefined)
    query = query.where("gateway_instance_id", "=", filter.gatewayInstanceId);
  if (filter.limit !== undefined) query = query.limit(filter.limit);
  return (await query.execute()).map((row) => approvalTable.toRecord(row));
}
