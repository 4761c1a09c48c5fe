import { type Kysely, sql } from "kysely";
import type { AcpSession, AcpTurn, AcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import type { RememberedRule } from "../../model/acp/permission-rule.js";
import {
  acpSessionTable,
  acpTurnTable,
  acpUpdateTable,
  permissionRequestTable,
  rememberedRuleTable,
  type Schema,
} from "../schema.js";
import { isColumnInScope } from "../sessions/queries.js";
import { equals, type Reader, type SqlDialect } from "../sql/engine.js";
import type {
  AcpPermissionRequestFilter,
  AcpReads,
  AcpSessionFilter,
  AcpTurnFilter,
  AcpUpdateFilter,
  RememberedRuleFilter,
} from "./contract.js";

/** Literals, not parameters, so that the partial indexes are used. */
const open = sql<boolean>`closed_at is null`;
const closed = sql<boolean>`closed_at is not null`;
const pending = sql<boolean>`verdict is null`;
const decided = sql<boolean>`verdict is not null`;

export function acpQueries(reader: Reader): AcpReads {
  const { dialect } = reader;
  return {
    getAcpSession: (sessionId) =>
      reader.read((db) => {
        const query = db.selectFrom("acp_sessions").selectAll();
        return acpSessionTable.first(query.where("session_id", "=", sessionId));
      }, null),
    listAcpSessions: (filter) => reader.read((db) => listAcpSessions(db, dialect, filter), []),
    getAcpTurn: (turnId) =>
      reader.read(
        (db) => acpTurnTable.first(db.selectFrom("acp_turns").selectAll().where("turn_id", "=", turnId)),
        null,
      ),
    listAcpTurns: (filter) => reader.read((db) => listAcpTurns(db, filter), []),
    listAcpUpdates: (filter) => reader.read((db) => listAcpUpdates(db, filter), []),
    getAcpPermissionRequest: (id) =>
      reader.read(
        (db) =>
          permissionRequestTable.first(db.selectFrom("acp_permissions").selectAll().where("id", "=", id)),
        null,
      ),
    listAcpPermissionRequests: (filter) =>
      reader.read((db) => listAcpPermissionRequests(db, dialect, filter), []),
    getRememberedRule: (id) =>
      reader.read(
        (db) =>
          rememberedRuleTable.first(db.selectFrom("acp_permission_rules").selectAll().where("id", "=", id)),
        null,
      ),
    listRememberedRules: (filter) => reader.read((db) => listRememberedRules(db, filter), []),
  };
}

async function listAcpSessions(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  { sessionIds, open: isOpen, runId, gatewayInstanceId, seenBy, limit }: AcpSessionFilter,
): Promise<readonly AcpSession[]> {
  let query = db
    .selectFrom("acp_sessions")
    .selectAll()
    .where(
      equals("acp_sessions", {
        session_id: sessionIds,
        run_id: runId,
        gateway_instance_id: gatewayInstanceId,
      }),
    )
    .orderBy("created_at", "desc")
    .orderBy("session_id", "desc");
  if (isOpen !== undefined) query = query.where(isOpen ? open : closed);
  if (seenBy !== undefined) query = query.where(isColumnInScope(dialect, "session_id", seenBy));
  return acpSessionTable.list(limit === undefined ? query : query.limit(limit));
}

async function listAcpTurns(db: Kysely<Schema>, filter: AcpTurnFilter): Promise<readonly AcpTurn[]> {
  const { sessionId, states, after, before, newestFirst = false, limit } = filter;
  let query = db
    .selectFrom("acp_turns")
    .selectAll()
    .where(equals("acp_turns", { session_id: sessionId, state: states }))
    .orderBy("place", newestFirst ? "desc" : "asc");
  if (after !== undefined) query = query.where("place", ">", after);
  if (before !== undefined) query = query.where("place", "<", before);
  return acpTurnTable.list(limit === undefined ? query : query.limit(limit));
}

async function listAcpUpdates(db: Kysely<Schema>, filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]> {
  const { maxBytes } = filter;
  let query = selectUpdates(db, filter).selectAll();
  if (maxBytes !== undefined) {
    const bytes = sql<number>`octet_length(data)`.as("bytes");
    const sizes = await selectUpdates(db, filter).select("seq").select(bytes).execute();
    query = query.where("seq", "<=", lastWithin(sizes, maxBytes));
  }
  return acpUpdateTable.list(query);
}

function selectUpdates(db: Kysely<Schema>, { sessionId, after = 0, turnId, type, limit }: AcpUpdateFilter) {
  const query = db
    .selectFrom("acp_updates")
    .where(equals("acp_updates", { session_id: sessionId, turn_id: turnId, type }))
    .where("seq", ">", after)
    .orderBy("seq");
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

async function listRememberedRules(
  db: Kysely<Schema>,
  { sessionId, agent, appliesTo, revoked = false, limit }: RememberedRuleFilter,
): Promise<readonly RememberedRule[]> {
  let query = db
    .selectFrom("acp_permission_rules")
    .selectAll()
    .where(equals("acp_permission_rules", { session_id: sessionId, agent }))
    .orderBy("created_at", "desc")
    .orderBy("id", "desc");
  if (appliesTo !== undefined)
    query = query.where((where) =>
      where.or([where("session_id", "=", appliesTo.sessionId), where("agent", "=", appliesTo.agent)]),
    );
  if (!revoked) query = query.where("revoked_at", "is", null);
  return rememberedRuleTable.list(limit === undefined ? query : query.limit(limit));
}

async function listAcpPermissionRequests(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  { sessionId, pending: isPending, answered, seenBy, newestFirst = false, limit }: AcpPermissionRequestFilter,
): Promise<readonly AcpPermissionRequest[]> {
  const direction = newestFirst ? "desc" : "asc";
  let query = db
    .selectFrom("acp_permissions")
    .selectAll()
    .where(equals("acp_permissions", { session_id: sessionId }))
    .orderBy("asked_at", direction)
    .orderBy("id", direction);
  if (isPending !== undefined) query = query.where(isPending ? pending : decided);
  if (answered !== undefined) query = query.where("answered", "=", answered ? 1 : 0);
  if (seenBy !== undefined) query = query.where(isColumnInScope(dialect, "session_id", seenBy));
  return permissionRequestTable.list(limit === undefined ? query : query.limit(limit));
}
