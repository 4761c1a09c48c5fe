import { type Kysely, type RawBuilder, sql } from "kysely";
import type { Approval } from "../../model/exec/approval.js";
import type { SessionRecord, SessionScope } from "../../model/session.js";
import { approvalTable, type Schema, sessionTable } from "../schema.js";
import { equals, type Reader, type SqlDialect } from "../sql/engine.js";
import type { ApprovalFilter, SessionFilter, SessionReads } from "./contract.js";

/** True if a row of `sessions` is in the scope. A property test compares it with canSeeSessionRow. */
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

/** True if a column names a session in the scope. The sessions are read once for the whole statement. */
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
    getSession: (id) =>
      reader.read(
        (db) => sessionTable.first(db.selectFrom("sessions").selectAll().where("id", "=", id)),
        null,
      ),
    getSessionByKey: (key) =>
      reader.read((db) => {
        const query = db.selectFrom("sessions").selectAll();
        return sessionTable.first(query.where("key", "=", key).where(open));
      }, null),
    listSessions: (filter) => reader.read((db) => listSessions(db, reader.dialect, filter), []),
    storedBytesOfSession: (sessionId) => reader.read((db) => storedBytesOfSession(db, sessionId), 0),
    resolveToken: (hash, now) => reader.read((db) => resolveToken(db, hash, now), null),
    findTokenHash: (prefix) => reader.read((db) => findTokenHash(db, prefix), null),
    getApproval: (id) =>
      reader.read(
        (db) => approvalTable.first(db.selectFrom("approvals").selectAll().where("id", "=", id)),
        null,
      ),
    listApprovals: (filter) => reader.read((db) => listApprovals(db, filter), []),
  };
}

async function listSessions(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: SessionFilter,
): Promise<readonly SessionRecord[]> {
  const {
    open: isOpen,
    agentId,
    backend,
    agentSessionId,
    key,
    abbreviation,
    seenBy,
    idleSince,
    limit,
  } = filter;
  const given = { agent_id: agentId, backend, agent_session_id: agentSessionId, key };
  let query = db
    .selectFrom("sessions")
    .selectAll()
    .where(equals("sessions", given))
    .orderBy("created_at", "desc")
    .orderBy("id", "desc");
  if (isOpen !== undefined) query = query.where(isOpen ? open : closed);
  if (abbreviation !== undefined) query = query.where(isAbbreviationOf(abbreviation));
  if (seenBy !== undefined) query = query.where(isSessionInScope(dialect, seenBy));
  if (idleSince !== undefined)
    query = query
      .where("created_at", "<", idleSince)
      .where(
        sql<boolean>`not exists (select 1 from session_messages where session_id = sessions.id and at >= ${idleSince})`,
      );
  return sessionTable.list(limit === undefined ? query : query.limit(limit));
}

/** SQL counts code points, not UTF-16 units. */
function charactersOf(text: string): number {
  return Array.from(text).length;
}

/** Compares with substr, because LIKE ignores case in SQLite and has wildcards. */
function isAbbreviationOf(text: string): RawBuilder<boolean> {
  const begins = (column: string, beginning: string): RawBuilder<boolean> =>
    sql<boolean>`substr(${sql.ref(column)}, 1, ${charactersOf(beginning)}) = ${beginning}`;
  const last = `/${text}`;
  return sql<boolean>`(${begins("sessions.key", text)}
    or ${begins("sessions.id", text)}
    or ${begins("sessions.id", `ses_${text}`)}
    or substr(sessions.key, length(sessions.key) - ${charactersOf(last) - 1}) = ${last})`;
}

/** True if the run of a token is open. Derived from the run's record, so it does not depend on which gateway recorded the end. */
export const runIsOpen = sql<boolean>`exists (
  select 1 from runs where runs.run_id = session_tokens.run_id and runs.state <> 'exited'
)`;

async function resolveToken(db: Kysely<Schema>, hash: string, now: number): Promise<SessionRecord | null> {
  const query = db
    .selectFrom("session_tokens")
    .innerJoin("sessions", "sessions.id", "session_tokens.session_id")
    .selectAll("sessions")
    .where("session_tokens.hash", "=", hash)
    .where(sql<boolean>`(session_tokens.expires_at is null or session_tokens.expires_at > ${now})`)
    .where(sql<boolean>`(session_tokens.run_id is null or session_tokens.run_id = '' or ${runIsOpen})`)
    .where(open);
  return sessionTable.first(query);
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

async function listApprovals(
  db: Kysely<Schema>,
  { pending: isPending, sessionId, gatewayInstanceId, newestFirst = false, limit }: ApprovalFilter,
): Promise<readonly Approval[]> {
  const given = { session_id: sessionId, gateway_instance_id: gatewayInstanceId };
  const direction = newestFirst ? "desc" : "asc";
  let query = db
    .selectFrom("approvals")
    .selectAll()
    .where(equals("approvals", given))
    .orderBy("asked_at", direction)
    .orderBy("id", direction);
  if (isPending !== undefined) query = query.where(isPending ? pending : decided);
  return approvalTable.list(limit === undefined ? query : query.limit(limit));
}
