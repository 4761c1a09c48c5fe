import { type Kysely, sql } from "kysely";
import type { AcpPermissionRequest, AcpSession, AcpTurn, AcpUpdate } from "../../model/acp.js";
import {
  acpSessionTable,
  acpTurnTable,
  acpUpdateTable,
  permissionRequestTable,
  type Schema,
} from "../schema.js";
import { isColumnInScope } from "../sessions/queries.js";
import type { Reader, SqlDialect } from "../sql/engine.js";
import type {
  AcpPermissionRequestFilter,
  AcpReads,
  AcpSessionFilter,
  AcpTurnFilter,
  AcpUpdateFilter,
} from "./store.js";

/** Literals, not parameters, so that the partial indexes are used. */
const open = sql<boolean>`closed_at is null`;
const closed = sql<boolean>`closed_at is not null`;
const pending = sql<boolean>`verdict is null`;
const decided = sql<boolean>`verdict is not null`;

export function acpQueries(reader: Reader): AcpReads {
  const { dialect } = reader;
  return {
    getAcpSession: (sessionId) => reader.read((db) => getAcpSession(db, sessionId), null),
    listAcpSessions: (filter) => reader.read((db) => listAcpSessions(db, dialect, filter), []),
    getAcpTurn: (turnId) => reader.read((db) => getAcpTurn(db, turnId), null),
    listAcpTurns: (filter) => reader.read((db) => listAcpTurns(db, filter), []),
    listAcpUpdates: (filter) => reader.read((db) => listAcpUpdates(db, filter), []),
    getAcpPermissionRequest: (id) => reader.read((db) => getAcpPermissionRequest(db, id), null),
    listAcpPermissionRequests: (filter) =>
      reader.read((db) => listAcpPermissionRequests(db, dialect, filter), []),
  };
}

async function getAcpSession(db: Kysely<Schema>, sessionId: string): Promise<AcpSession | null> {
  const row = await db
    .selectFrom("acp_sessions")
    .selectAll()
    .where("session_id", "=", sessionId)
    .executeTakeFirst();
  return row === undefined ? null : acpSessionTable.toRecord(row);
}

async function listAcpSessions(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: AcpSessionFilter,
): Promise<readonly AcpSession[]> {
  let query = db
    .selectFrom("acp_sessions")
    .selectAll()
    .orderBy("created_at", "desc")
    .orderBy("session_id", "desc");
  if (filter.open !== undefined) query = query.where(filter.open ? open : closed);
  if (filter.runId !== undefined) query = query.where("run_id", "=", filter.runId);
  if (filter.gatewayInstanceId !== undefined)
    query = query.where("gateway_instance_id", "=", filter.gatewayInstanceId);
  if (filter.seenBy !== undefined) query = query.where(isColumnInScope(dialect, "session_id", filter.seenBy));
  if (filter.limit !== undefined) query = query.limit(filter.limit);
  return (await query.execute()).map((row) => acpSessionTable.toRecord(row));
}

async function getAcpTurn(db: Kysely<Schema>, turnId: string): Promise<AcpTurn | null> {
  const row = await db.selectFrom("acp_turns").selectAll().where("turn_id", "=", turnId).executeTakeFirst();
  return row === undefined ? null : acpTurnTable.toRecord(row);
}

async function listAcpTurns(db: Kysely<Schema>, filter: AcpTurnFilter): Promise<readonly AcpTurn[]> {
  const { sessionId, states, after, before, newestFirst = false, limit } = filter;
  let query = db
    .selectFrom("acp_turns")
    .selectAll()
    .where("session_id", "=", sessionId)
    .orderBy("place", newestFirst ? "desc" : "asc");
  if (states !== undefined) query = query.where("state", "in", states);
  if (after !== undefined) query = query.where("place", ">", after);
  if (before !== undefined) query = query.where("place", "<", before);
  if (limit !== undefined) query = query.limit(limit);
  return (await query.execute()).map((row) => acpTurnTable.toRecord(row));
}

async function listAcpUpdates(db: Kysely<Schema>, filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]> {
  const { maxBytes } = filter;
  let query = selectUpdates(db, filter).selectAll();
  if (maxBytes !== undefined) {
    const bytes = sql<number>`octet_length(data)`.as("bytes");
    const sizes = await selectUpdates(db, filter).select("seq").select(bytes).execute();
    query = query.where("seq", "<=", lastWithin(sizes, maxBytes));
  }
  return (await query.execute()).map((row) => acpUpdateTable.toRecord(row));
}

function selectUpdates(db: Kysely<Schema>, { sessionId, after = 0, turnId, type, limit }: AcpUpdateFilter) {
  let query = db
    .selectFrom("acp_updates")
    .where("session_id", "=", sessionId)
    .where("seq", ">", after)
    .orderBy("seq");
  if (turnId !== undefined) query = query.where("turn_id", "=", turnId);
  if (type !== undefined) query = query.where("type", "=", type);
  return limit === undefined ? query : query.limit(limit);
}

function lastWithin(
  sizes: readonly { readonly seq: number; readonly bytes: number }[],
  maxBytes: number,
): number {
  let last = 0;
  let total = 0;
  for (const { seq, bytes } of sizes) {
    last = seq;
    total += bytes;
    if (total >= maxBytes) break;
  }
  return last;
}

async function getAcpPermissionRequest(db: Kysely<Schema>, id: string): Promise<AcpPermissionRequest | null> {
  const row = await db.selectFrom("acp_permissions").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? null : permissionRequestTable.toRecord(row);
}

async function listAcpPermissionRequests(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: AcpPermissionRequestFilter,
): Promise<readonly AcpPermissionRequest[]> {
  let query = db.selectFrom("acp_permissions").selectAll().orderBy("asked_at").orderBy("id");
  if (filter.sessionId !== undefined) query = query.where("session_id", "=", filter.sessionId);
  if (filter.pending !== undefined) query = query.where(filter.pending ? pending : decided);
  if (filter.answered !== undefined) query = query.where("answered", "=", filter.answered ? 1 : 0);
  if (filter.seenBy !== undefined) query = query.where(isColumnInScope(dialect, "session_id", filter.seenBy));
  if (filter.limit !== undefined) query = query.limit(filter.limit);
  return (await query.execute()).map((row) => permissionRequestTable.toRecord(row));
}
