import { type Compilable, sql } from "kysely";
import type { ApprovalDecision } from "../../model/exec/approval.js";
import type { NewSession, SessionRecord } from "../../model/session.js";
import { approvalTable, sessionTable } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { runIsOpen } from "./queries.js";
import type { SessionWrites } from "./contract.js";

/** Literals, not parameters, so that the partial indexes are used. */
const open = sql<boolean>`closed_at is null`;
const pending = sql<boolean>`verdict is null`;

/** Value of `run_id` while the run is being started. */
const UNBOUND = "";

/** How long an unbound token is kept: a run starts within seconds, or after the operator's approval. */
const UNBOUND_TOKEN_KEPT_MS = 3_600_000;

const runEnded = sql<boolean>`(run_id is not null and run_id <> '' and not ${runIsOpen})`;

export function sessionWrites(engine: SqlEngine): SessionWrites {
  return { ...recordWrites(engine), ...tokenWrites(engine), ...approvalWrites(engine) };
}

function recordWrites(
  engine: SqlEngine,
): Pick<
  SessionWrites,
  | "createSession"
  | "restoreSession"
  | "setAgentSessionId"
  | "recordSessionClosing"
  | "closeSession"
  | "deleteClosedSessions"
> {
  const { db, dialect } = engine;
  return {
    createSession: (session) => engine.transact(() => createSession(engine, session)),
    restoreSession(session) {
      const insert = db.insertInto("sessions").values(sessionTable.toColumns(session));
      // If the id or the key is taken, nothing is written.
      return engine.perform(() => hasChanged(insert.onConflict((conflict) => conflict.doNothing())));
    },
    setAgentSessionId(id, agentSessionId) {
      const set = db.updateTable("sessions").set({ agent_session_id: agentSessionId });
      return engine.perform(() => hasChanged(set.where("id", "=", id).where(open)));
    },
    async recordSessionClosing(id, actor, reason) {
      const set = db.updateTable("sessions").set({ closed_by: actor, close_reason: reason });
      const unrecorded = set.where("id", "=", id).where(open).where("closed_by", "is", null);
      await engine.perform(() => hasChanged(unrecorded));
    },
    async closeSession(id, actor, at, reason = null) {
      const closed = await engine.transact(() => closeSession(engine, id, { actor, at, reason }));
      // A deleted token must not return after power loss. Flushed also if nothing was written: an earlier flush may have failed.
      await engine.flush();
      return closed;
    },
    deleteClosedSessions(closedBefore) {
      // A lineage names all ancestors, so one lookup finds whether a remaining session refers to a row.
      const deleteUnused = sql`
      with going as (
        select id, lineage from sessions
        where closed_at < ${closedBefore} and not exists (select 1 from runs where session_id = sessions.id)
          and not exists (select 1 from tasks where owner_session_id = sessions.id)
          and not exists (select 1 from tasks where child_session_id = sessions.id)
      ), named as (
        select ancestor.value as id from sessions, ${dialect.jsonItems("lineage")} as ancestor
        where sessions.id not in (select id from going)
      )
      delete from sessions where id in (select id from going) and id not in (select id from named)
    `;
      return engine.perform(() => countChanged({ compile: () => deleteUnused.compile(db) }));
    },
  };
}

function tokenWrites(
  engine: SqlEngine,
): Pick<SessionWrites, "issueToken" | "bindToken" | "rotateTokens" | "deleteEndedTokens" | "revokeToken"> {
  const { db } = engine;
  return {
    issueToken(sessionId, hash, at, { ofRun = false, expiresAt = null } = {}) {
      const insert = db.insertInto("session_tokens").values({
        session_id: sessionId,
        hash,
        created_at: at,
        run_id: ofRun ? UNBOUND : null,
        expires_at: expiresAt,
      });
      // Ended tokens must not accumulate between two rounds of retention.
      const ended = db.deleteFrom("session_tokens").where("session_id", "=", sessionId).where(runEnded);
      return insertWhileOpen(engine, sessionId, insert, ofRun ? [ended] : []);
    },
    bindToken(hash, runId) {
      const set = db.updateTable("session_tokens").set({ run_id: runId });
      return engine.perform(() => hasChanged(set.where("hash", "=", hash).where("run_id", "=", UNBOUND)));
    },
    async rotateTokens(sessionId, hash, at, { expiresAt, endAt }) {
      const row = { session_id: sessionId, hash, created_at: at, run_id: null, expires_at: expiresAt };
      const ofSession = sql<boolean>`session_id = ${sessionId} and run_id is null`;
      const endOthers =
        endAt <= at
          ? db.deleteFrom("session_tokens").where(ofSession)
          : db
              .updateTable("session_tokens")
              .set({ expires_at: endAt })
              .where(ofSession)
              .where(sql<boolean>`(expires_at is null or expires_at > ${endAt})`);
      const insert = db.insertInto("session_tokens").values(row);
      const rotated = await insertWhileOpen(engine, sessionId, insert, [endOthers]);
      // An ended token must not return after power loss.
      await engine.flush();
      return rotated;
    },
    deleteEndedTokens(now) {
      const expired = sql<boolean>`(expires_at is not null and expires_at <= ${now})`;
      const unused = sql<boolean>`(run_id = ${UNBOUND} and created_at < ${now - UNBOUND_TOKEN_KEPT_MS})`;
      const ended = sql<boolean>`(${expired} or ${unused} or ${runEnded})`;
      return engine.perform(() => countChanged(db.deleteFrom("session_tokens").where(ended)));
    },
    async revokeToken(hash) {
      const revoke = db.deleteFrom("session_tokens").where("hash", "=", hash);
      const revoked = await engine.perform(() => hasChanged(revoke));
      await engine.flush();
      return revoked;
    },
  };
}

function approvalWrites(
  engine: SqlEngine,
): Pick<SessionWrites, "insertApproval" | "decideApproval" | "expireApprovals" | "deleteDecidedApprovals"> {
  const { db } = engine;
  return {
    insertApproval(approval) {
      const insert = db.insertInto("approvals").values(approvalTable.toColumns(approval));
      return insertWhileOpen(engine, approval.sessionId, insert);
    },
    decideApproval: (id, decision) =>
      engine.perform(() => hasChanged(decide(engine, decision).where("id", "=", id))),
    expireApprovals: (ids, actor, at) =>
      engine.transact(() => expireApprovals(engine, ids, { verdict: "expired", actor, at })),
    deleteDecidedApprovals: (decidedBefore) =>
      engine.perform(() => countChanged(db.deleteFrom("approvals").where("decided_at", "<", decidedBefore))),
  };
}

function* createSession(
  { db }: SqlEngine,
  session: NewSession,
): Steps<{ readonly session: SessionRecord; readonly created: boolean }> {
  const insert = db
    .insertInto("sessions")
    .values(sessionTable.toColumns(session))
    .onConflict((conflict) => conflict.column("key").where(open).doNothing());
  const select = db.selectFrom("sessions").selectAll().where("key", "=", session.key).where(open);
  for (;;) {
    const created = yield* hasChanged(insert);
    const [row] = yield* fetchRows(select);
    if (row !== undefined) return { session: sessionTable.toRecord(row), created };
    // The session that had the key was closed between the two statements.
  }
}

interface SessionClose {
  readonly actor: string;
  readonly at: number;
  readonly reason: string | null;
}

function* closeSession(engine: SqlEngine, id: string, { actor, at, reason }: SessionClose): Steps<boolean> {
  const { db } = engine;
  const close = db
    .updateTable("sessions")
    .set({
      closed_at: at,
      // The reason belongs to the actor that began to close it.
      close_reason: sql<string | null>`case when closed_by is null then ${reason} else close_reason end`,
      closed_by: sql<string>`coalesce(closed_by, ${actor})`,
    })
    .where("id", "=", id)
    .where(open);
  if (!(yield* hasChanged(close))) return false;
  yield* countChanged(db.deleteFrom("session_tokens").where("session_id", "=", id));
  yield* countChanged(decide(engine, { verdict: "expired", actor, at }).where("session_id", "=", id));
  return true;
}

function* expireApprovals(
  engine: SqlEngine,
  ids: readonly string[],
  decision: ApprovalDecision,
): Steps<readonly string[]> {
  const expired: string[] = [];
  for (const id of ids)
    if (yield* hasChanged(decide(engine, decision).where("id", "=", id))) expired.push(id);
  return expired;
}

/** Only pending approvals: a decision never changes. */
function decide({ db }: SqlEngine, decision: ApprovalDecision) {
  return db.updateTable("approvals").set(approvalTable.toColumns({ decision })).where(pending);
}

/** Inserts a row while the session is open; the lock keeps the session open until the commit. */
function insertWhileOpen(
  engine: SqlEngine,
  sessionId: string,
  insert: Compilable,
  before: readonly Compilable[] = [],
): Promise<boolean> {
  const { db, dialect } = engine;
  const session = db
    .selectFrom("sessions")
    .select("id")
    .where("id", "=", sessionId)
    .where(open)
    .modifyEnd(dialect.lockShared);
  return engine.transact(function* () {
    if ((yield* fetchRows(session)).length === 0) return false;
    for (const each of before) yield* countChanged(each);
    return yield* hasChanged(insert);
  });
}
