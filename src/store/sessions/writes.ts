import { type Compilable, sql } from "kysely";
import type {
  Approval,
  ApprovalDecision,
  NewApproval,
  NewSession,
  SessionRecord,
} from "../../model/session.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import * as read from "./queries.js";
import { toApprovalColumns, toSessionColumns, toSessionRecord } from "./rows.js";
import type { ApprovalFilter, SessionFilter, SessionStore, TokenOptions } from "./store.js";

/** Literals, not parameters: only so can the partial indexes serve. */
const open = sql<boolean>`closed_at is null`;
const pending = sql<boolean>`verdict is null`;

/** Value of `run_id` while the run is being started. */
const UNBOUND = "";

/** How long an unbound token is kept: a run starts within seconds, or after the operator's approval. */
const UNBOUND_TOKEN_KEPT_MS = 3_600_000;

const runEnded = sql<boolean>`(run_id is not null and run_id <> '' and not ${read.runIsOpen})`;

export class SqlSessionStore implements SessionStore {
  readonly #engine: SqlEngine;

  constructor(engine: SqlEngine) {
    this.#engine = engine;
  }

  async createSession(
    session: NewSession,
  ): Promise<{ readonly session: SessionRecord; readonly created: boolean }> {
    return this.#engine.transact(() => this.#create(session));
  }

  async restoreSession(session: SessionRecord): Promise<boolean> {
    const { closedAt, agentSessionId, ...opened } = session;
    const row = { ...toSessionColumns(opened), closed_at: closedAt, agent_session_id: agentSessionId };
    const insert = this.#engine.db.insertInto("sessions").values(row);
    // If either of the two keys is taken, nothing is written.
    return (await this.#count(insert.onConflict((conflict) => conflict.doNothing()))) > 0;
  }

  getSession(id: string): Promise<SessionRecord | null> {
    return read.getSession(this.#engine.db, id);
  }

  getSessionByKey(key: string): Promise<SessionRecord | null> {
    return read.getSessionByKey(this.#engine.db, key);
  }

  listSessions(filter: SessionFilter): Promise<readonly SessionRecord[]> {
    return read.listSessions(this.#engine.db, this.#engine.dialect, filter);
  }

  async setAgentSessionId(id: string, agentSessionId: string): Promise<boolean> {
    const { db } = this.#engine;
    const set = db.updateTable("sessions").set({ agent_session_id: agentSessionId });
    return (await this.#count(set.where("id", "=", id).where(open))) > 0;
  }

  async closeSession(id: string, actor: string, at: number): Promise<boolean> {
    const closed = await this.#engine.transact(() => this.#close(id, actor, at));
    // A token that was dead must not be alive again after power loss. Also when it was closed before: that sync may have failed.
    await this.#engine.flush();
    return closed;
  }

  async deleteClosedSessions(closedBefore: number): Promise<number> {
    // A lineage names all ancestors, not only the nearest: one look tells whether anything that stays refers to a row.
    const forget = sql`
      with going as (
        select id, lineage from sessions
        where closed_at < ${closedBefore} and not exists (select 1 from runs where session_id = sessions.id)
          and not exists (select 1 from tasks where owner_session_id = sessions.id)
          and not exists (select 1 from tasks where child_session_id = sessions.id)
      ), named as (
        select ancestor.value as id from sessions, ${this.#engine.dialect.jsonItems("lineage")} as ancestor
        where sessions.id not in (select id from going)
      )
      delete from sessions where id in (select id from going) and id not in (select id from named)
    `;
    return this.#count({ compile: () => forget.compile(this.#engine.db) });
  }

  async issueToken(
    sessionId: string,
    hash: string,
    at: number,
    { ofRun = false, expiresAt = null }: TokenOptions = {},
  ): Promise<boolean> {
    const { db } = this.#engine;
    const row = {
      session_id: sessionId,
      hash,
      created_at: at,
      run_id: ofRun ? UNBOUND : null,
      expires_at: expiresAt,
    };
    // Ended tokens must not accumulate between two rounds of retention.
    const ended = db.deleteFrom("session_tokens").where("session_id", "=", sessionId).where(runEnded);
    return this.#insertWhileOpen(
      sessionId,
      db.insertInto("session_tokens").values(row),
      ofRun ? [ended] : [],
    );
  }

  async bindToken(hash: string, runId: string): Promise<boolean> {
    const set = this.#engine.db.updateTable("session_tokens").set({ run_id: runId });
    return (await this.#count(set.where("hash", "=", hash).where("run_id", "=", UNBOUND))) > 0;
  }

  async rotateTokens(
    sessionId: string,
    hash: string,
    at: number,
    { expiresAt, endAt }: { readonly expiresAt: number | null; readonly endAt: number },
  ): Promise<boolean> {
    const { db } = this.#engine;
    const row = { session_id: sessionId, hash, created_at: at, run_id: null, expires_at: expiresAt };
    const theirs = sql<boolean>`session_id = ${sessionId} and run_id is null`;
    const others =
      endAt <= at
        ? db.deleteFrom("session_tokens").where(theirs)
        : db
            .updateTable("session_tokens")
            .set({ expires_at: endAt })
            .where(theirs)
            .where(sql<boolean>`(expires_at is null or expires_at > ${endAt})`);
    const rotated = await this.#insertWhileOpen(sessionId, db.insertInto("session_tokens").values(row), [
      others,
    ]);
    // A token that was dead must not be alive again after power loss.
    await this.#engine.flush();
    return rotated;
  }

  async deleteEndedTokens(now: number): Promise<number> {
    const { db } = this.#engine;
    const expired = sql<boolean>`(expires_at is not null and expires_at <= ${now})`;
    const unused = sql<boolean>`(run_id = ${UNBOUND} and created_at < ${now - UNBOUND_TOKEN_KEPT_MS})`;
    return this.#count(
      db.deleteFrom("session_tokens").where(sql<boolean>`(${expired} or ${unused} or ${runEnded})`),
    );
  }

  storedBytesOfSession(sessionId: string): Promise<number> {
    return read.storedBytesOfSession(this.#engine.db, sessionId);
  }

  resolveToken(hash: string, now: number): Promise<SessionRecord | null> {
    return read.resolveToken(this.#engine.db, hash, now);
  }

  findTokenHash(prefix: string): Promise<string | null> {
    return read.findTokenHash(this.#engine.db, prefix);
  }

  async revokeToken(hash: string): Promise<boolean> {
    const revoked = await this.#count(this.#engine.db.deleteFrom("session_tokens").where("hash", "=", hash));
    await this.#engine.flush();
    return revoked > 0;
  }

  async insertApproval(approval: NewApproval): Promise<boolean> {
    const insert = this.#engine.db.insertInto("approvals").values(toApprovalColumns(approval));
    return this.#insertWhileOpen(approval.sessionId, insert);
  }

  async decideApproval(id: string, decision: ApprovalDecision): Promise<boolean> {
    return (await this.#count(this.#decide(decision).where("id", "=", id))) > 0;
  }

  async expireApprovals(ids: readonly string[], actor: string, at: number): Promise<readonly string[]> {
    return this.#engine.transact(() => this.#expire(ids, { verdict: "expired", actor, at }));
  }

  getApproval(id: string): Promise<Approval | null> {
    return read.getApproval(this.#engine.db, id);
  }

  listApprovals(filter: ApprovalFilter): Promise<readonly Approval[]> {
    return read.listApprovals(this.#engine.db, filter);
  }

  async deleteDecidedApprovals(decidedBefore: number): Promise<number> {
    return this.#count(this.#engine.db.deleteFrom("approvals").where("decided_at", "<", decidedBefore));
  }

  *#create(session: NewSession): Steps<{ readonly session: SessionRecord; readonly created: boolean }> {
    const { db } = this.#engine;
    const insert = db
      .insertInto("sessions")
      .values(toSessionColumns(session))
      .onConflict((conflict) => conflict.column("key").where(open).doNothing());
    const select = db.selectFrom("sessions").selectAll().where("key", "=", session.key).where(open);
    for (;;) {
      const created = (yield* countChanged(insert)) > 0;
      const [row] = yield* fetchRows(select);
      if (row !== undefined) return { session: toSessionRecord(row), created };
      // The one that was in the way has been closed between the two statements.
    }
  }

  *#close(id: string, actor: string, at: number): Steps<boolean> {
    const { db } = this.#engine;
    const close = db.updateTable("sessions").set({ closed_at: at }).where("id", "=", id).where(open);
    if ((yield* countChanged(close)) === 0) return false;
    yield* countChanged(db.deleteFrom("session_tokens").where("session_id", "=", id));
    yield* countChanged(this.#decide({ verdict: "expired", actor, at }).where("session_id", "=", id));
    return true;
  }

  *#expire(ids: readonly string[], decision: ApprovalDecision): Steps<readonly string[]> {
    const expired: string[] = [];
    for (const id of ids)
      if ((yield* countChanged(this.#decide(decision).where("id", "=", id))) > 0) expired.push(id);
    return expired;
  }

  /** Guarded: what is decided stays decided. */
  #decide({ verdict, actor, at }: ApprovalDecision) {
    return this.#engine.db.updateTable("approvals").set({ verdict, actor, decided_at: at }).where(pending);
  }

  /** Only while the session is open; it is not closed meanwhile. */
  #insertWhileOpen(
    sessionId: string,
    insert: Compilable,
    before: readonly Compilable[] = [],
  ): Promise<boolean> {
    const { db, dialect } = this.#engine;
    const session = db
      .selectFrom("sessions")
      .select("id")
      .where("id", "=", sessionId)
      .where(open)
      .modifyEnd(dialect.lockShared);
    return this.#engine.transact(function* () {
      if ((yield* fetchRows(session)).length === 0) return false;
      for (const each of before) yield* countChanged(each);
      return (yield* countChanged(insert)) > 0;
    });
  }

  #count(statement: Compilable): Promise<number> {
    return this.#engine.perform(() => countChanged(statement));
  }
}
