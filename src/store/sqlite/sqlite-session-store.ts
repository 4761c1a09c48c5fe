import { sql } from "kysely";
import type { Compilable, Kysely } from "kysely";
import { toApprovalColumns } from "../approval-columns.js";
import type { Approval, ApprovalDecision, NewApproval } from "../approval-record.js";
import type { Schema } from "../schema.js";
import type { NewSession, SessionRow } from "../session-record.js";
import type { ApprovalFilter, SessionFilter, SessionStore } from "../session-store.js";
import { toSessionColumns, toSessionRow } from "../session-columns.js";
import type { SqliteConnection } from "./connection.js";
import * as read from "./read-sessions.js";
import type { WalSync } from "./wal-sync.js";

/** Literals, not parameters: only so can the partial indexes serve. */
const open = sql<boolean>`closed_at is null`;
const pending = sql<boolean>`verdict is null`;

export class SqliteSessionStore implements SessionStore {
  readonly #connection: SqliteConnection;
  readonly #db: Kysely<Schema>;
  readonly #walSync: WalSync;

  constructor(connection: SqliteConnection, db: Kysely<Schema>, walSync: WalSync) {
    this.#connection = connection;
    this.#db = db;
    this.#walSync = walSync;
  }

  async createSession(
    session: NewSession,
  ): Promise<{ readonly session: SessionRow; readonly created: boolean }> {
    const insert = this.#db
      .insertInto("sessions")
      .values(toSessionColumns(session))
      .onConflict((conflict) => conflict.column("key").where(open).doNothing());
    const select = this.#db.selectFrom("sessions").selectAll().where("key", "=", session.key).where(open);
    return this.#connection.transaction(() => {
      const created = this.#count(insert) > 0;
      const [row] = this.#connection.execute(select.compile()).rows;
      if (row === undefined) throw new Error(`session ${session.key} is neither new nor there`);
      return { session: toSessionRow(row), created };
    });
  }

  getSession(id: string): Promise<SessionRow | null> {
    return read.getSession(this.#db, id);
  }

  getSessionByKey(key: string): Promise<SessionRow | null> {
    return read.getSessionByKey(this.#db, key);
  }

  listSessions(filter: SessionFilter): Promise<readonly SessionRow[]> {
    return read.listSessions(this.#db, filter);
  }

  async closeSession(id: string, actor: string, at: number): Promise<boolean> {
    const close = this.#db.updateTable("sessions").set({ closed_at: at }).where("id", "=", id).where(open);
    const tokens = this.#db.deleteFrom("session_tokens").where("session_id", "=", id);
    const approvals = this.#decide({ verdict: "expired", actor, at }).where("session_id", "=", id);
    const closed = this.#connection.transaction(() => {
      if (this.#count(close) === 0) return false;
      this.#count(tokens);
      this.#count(approvals);
      return true;
    });
    // A token that was dead must not be alive again after power loss. Also when it was closed before: that sync may have failed.
    await this.#walSync.flush();
    return closed;
  }

  async forgetSessions(closedBefore: number): Promise<number> {
    // A lineage names all ancestors, not only the nearest: one look tells whether anything that stays refers to a row.
    const { numAffectedRows = 0n } = await sql`
      with going as (
        select id, lineage from sessions
        where closed_at < ${closedBefore} and not exists (select 1 from runs where session_id = sessions.id)
      ), named as (
        select value as id from sessions, json_each(lineage) where sessions.id not in (select id from going)
      )
      delete from sessions where id in (select id from going) and id not in (select id from named)
    `.execute(this.#db);
    return Number(numAffectedRows);
  }

  async issueToken(sessionId: string, hash: string, at: number): Promise<boolean> {
    const row = { session_id: sessionId, hash, created_at: at };
    return this.#insertFor(sessionId, this.#db.insertInto("session_tokens").values(row));
  }

  resolveToken(hash: string): Promise<SessionRow | null> {
    return read.resolveToken(this.#db, hash);
  }

  async revokeToken(hash: string): Promise<boolean> {
    const revoked = this.#count(this.#db.deleteFrom("session_tokens").where("hash", "=", hash)) > 0;
    await this.#walSync.flush();
    return revoked;
  }

  async insertApproval(approval: NewApproval): Promise<boolean> {
    const insert = this.#db.insertInto("approvals").values(toApprovalColumns(approval));
    return this.#insertFor(approval.sessionId, insert);
  }

  async decideApproval(id: string, decision: ApprovalDecision): Promise<boolean> {
    return this.#count(this.#decide(decision).where("id", "=", id)) > 0;
  }

  async expireApprovals(ids: readonly string[], actor: string, at: number): Promise<readonly string[]> {
    const expire = this.#decide({ verdict: "expired", actor, at });
    return this.#connection.transaction(() =>
      ids.filter((id) => this.#count(expire.where("id", "=", id)) > 0),
    );
  }

  getApproval(id: string): Promise<Approval | null> {
    return read.getApproval(this.#db, id);
  }

  listApprovals(filter: ApprovalFilter): Promise<readonly Approval[]> {
    return read.listApprovals(this.#db, filter);
  }

  async forgetApprovals(decidedBefore: number): Promise<number> {
    return this.#count(this.#db.deleteFrom("approvals").where("decided_at", "<", decidedBefore));
  }

  /** Guarded: what is decided stays decided. */
  #decide({ verdict, actor, at }: ApprovalDecision) {
    return this.#db.updateTable("approvals").set({ verdict, actor, decided_at: at }).where(pending);
  }

  /** Only while the session is open. */
  #insertFor(sessionId: string, insert: Compilable): boolean {
    const session = this.#db.selectFrom("sessions").select("id").where("id", "=", sessionId).where(open);
    return this.#connection.transaction(() => {
      if (this.#connection.execute(session.compile()).rows.length === 0) return false;
      return this.#count(insert) > 0;
    });
  }

  #count(statement: Compilable): number {
    return Number(this.#connection.execute(statement.compile()).numAffectedRows ?? 0n);
  }
}
