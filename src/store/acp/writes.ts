import { sql } from "kysely";
import type {
  AcpPermissionRequest,
  AcpSession,
  AcpTurn,
  AcpUpdate,
  NewAcpTurn,
  NewAcpUpdate,
} from "../../model/acp.js";
import { isNotice, isUndelivered, isWaiting } from "../messages/rows.js";
import { SqlMessageStore, takeSessionPlace } from "../messages/writes.js";
import { appendRunEvents } from "../runs/events.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import * as read from "./queries.js";
import {
  toAcpPermissionRequestColumns,
  toAcpSessionColumns,
  toAcpTurnColumns,
  toDecisionColumns,
} from "./rows.js";
import type {
  AcpChange,
  AcpPermissionRequestFilter,
  AcpSessionFilter,
  AcpStore,
  AcpTurnFilter,
  AcpUpdateFilter,
} from "./store.js";

const pending = sql<boolean>`verdict is null`;

/** Rows of one insert. A few sizes only: a statement of its own for every count would drive the others out of their places. */
const INSERTED_AT_ONCE = [256, 64, 16, 4, 1] as const;

/** Undoes the transaction it is thrown in. */
class VersionConflict extends Error {}

export class SqlAcpStore extends SqlMessageStore implements AcpStore {
  readonly #engine: SqlEngine;
  readonly #eventsKept: number;

  constructor(engine: SqlEngine, eventsKept: number) {
    super(engine);
    this.#engine = engine;
    this.#eventsKept = eventsKept;
  }

  async insertAcpSession(session: AcpSession): Promise<boolean> {
    const insert = this.#engine.db.insertInto("acp_sessions").values(toAcpSessionColumns(session));
    const once = insert.onConflict((conflict) => conflict.column("session_id").doNothing());
    return (await this.#engine.perform(() => countChanged(once))) > 0;
  }

  async commitAcpChange(
    sessionId: string,
    gatewayInstanceId: string,
    change: AcpChange,
  ): Promise<number | null> {
    try {
      const seq = await this.#engine.transact(() => this.#commit(sessionId, gatewayInstanceId, change));
      if ((change.events?.length ?? 0) > 0) this.#engine.notifyEvents();
      return seq;
    } catch (error) {
      if (error instanceof VersionConflict) return null;
      throw error;
    }
  }

  getAcpSession(sessionId: string): Promise<AcpSession | null> {
    return read.getAcpSession(this.#engine.db, sessionId);
  }

  listAcpSessions(filter: AcpSessionFilter): Promise<readonly AcpSession[]> {
    return read.listAcpSessions(this.#engine.db, this.#engine.dialect, filter);
  }

  getAcpTurn(turnId: string): Promise<AcpTurn | null> {
    return read.getAcpTurn(this.#engine.db, turnId);
  }

  listAcpTurns(filter: AcpTurnFilter): Promise<readonly AcpTurn[]> {
    return read.listAcpTurns(this.#engine.db, filter);
  }

  listAcpUpdates(filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]> {
    return read.listAcpUpdates(this.#engine.db, filter);
  }

  getAcpPermissionRequest(id: string): Promise<AcpPermissionRequest | null> {
    return read.getAcpPermissionRequest(this.#engine.db, id);
  }

  listAcpPermissionRequests(filter: AcpPermissionRequestFilter): Promise<readonly AcpPermissionRequest[]> {
    return read.listAcpPermissionRequests(this.#engine.db, this.#engine.dialect, filter);
  }

  async deleteAcpUpdates(endedBefore: number): Promise<number> {
    const { db } = this.#engine;
    const old = db
      .selectFrom("acp_turns")
      .select("turn_id")
      .where("state", "=", "ended")
      .where("ended_at", "<", endedBefore);
    return this.#engine.perform(() => countChanged(db.deleteFrom("acp_updates").where("turn_id", "in", old)));
  }

  /** The session's own row first: whoever changes anything of a session waits for it. */
  *#commit(sessionId: string, gatewayInstanceId: string, change: AcpChange): Steps<number> {
    const { db } = this.#engine;
    const { updates = [], turns = [], decide = [], answered = [] } = change;
    const session = db
      .updateTable("acp_sessions")
      .set({ ...toAcpSessionColumns(change.session ?? {}), updated_at: Date.now() })
      .set((column) => ({
        last_seq: column("last_seq", "+", updates.length),
        version: column("version", "+", 1),
      }))
      .where("session_id", "=", sessionId)
      .where("gateway_instance_id", "=", gatewayInstanceId);
    const { version } = change;
    const asKnown = version === undefined ? session : session.where("version", "=", version);
    const [row] = yield* fetchRows(asKnown.returning("last_seq"));
    if (row === undefined) throw new VersionConflict();
    if (change.newTurn !== undefined) yield* this.#addTurn(sessionId, change.newTurn);
    for (const { turnId, from, set } of turns)
      yield* requireChange(
        db
          .updateTable("acp_turns")
          .set(toAcpTurnColumns(set))
          .where("turn_id", "=", turnId)
          .where("state", "=", from),
      );
    const { take, delivered } = change;
    for (const id of take?.messages ?? []) {
      const taken = yield* countChanged(
        db
          .updateTable("session_messages")
          .set({ turn_id: take?.turnId ?? null })
          .where("id", "=", id)
          .where("session_id", "=", sessionId)
          .where(isWaiting),
      );
      // Of what was read elsewhere meanwhile no turn is made; one that only brings it along goes on.
      if (taken === 0 && change.newTurn !== undefined) throw new VersionConflict();
    }
    if (delivered !== undefined)
      yield* countChanged(
        db
          .updateTable("session_messages")
          .set({ delivered_at: delivered.at })
          .where("turn_id", "=", delivered.turnId)
          .where(isUndelivered),
      );
    for (const { turnId, set } of turns)
      if (set.state === "ended")
        yield* countChanged(
          db
            .updateTable("session_messages")
            .set((column) => ({ turn_id: null, in_vain: column("in_vain", "+", 1) }))
            .where("turn_id", "=", turnId)
            .where(isUndelivered)
            .where(isNotice),
        );
    if (change.newPermission !== undefined)
      yield* countChanged(
        db.insertInto("acp_permissions").values(toAcpPermissionRequestColumns(change.newPermission)),
      );
    for (const { id, decision } of decide)
      yield* requireChange(
        db
          .updateTable("acp_permissions")
          .set(toDecisionColumns(decision))
          .where("id", "=", id)
          .where(pending),
      );
    for (const id of answered)
      yield* countChanged(db.updateTable("acp_permissions").set({ answered: 1 }).where("id", "=", id));
    yield* this.#append(sessionId, row.last_seq - updates.length, updates);
    const { shared } = this.#engine.dialect;
    yield* appendRunEvents(db, change.events ?? [], { kept: this.#eventsKept, shared });
    return row.last_seq;
  }

  *#addTurn(sessionId: string, turn: NewAcpTurn): Steps<void> {
    const { db } = this.#engine;
    const [last] = yield* fetchRows(
      db
        .selectFrom("acp_turns")
        .select((column) => column.fn.max("ordinal").as("ordinal"))
        .where("session_id", "=", sessionId),
    );
    const place = turn.place ?? (yield* takeSessionPlace(db, sessionId));
    if (place === null) throw new VersionConflict();
    const blank = { startedAt: null, endedAt: null, requestId: null, before: null, cancel: null } as const;
    const unended = { outcome: null, stopReason: null, problem: null, audit: null, text: "" } as const;
    const row: AcpTurn = {
      ...turn,
      ...blank,
      ...unended,
      sessionId,
      ordinal: (last?.ordinal ?? 0) + 1,
      place,
      state: "queued",
      toolCalls: [],
      contextLost: false,
      keptBytes: 0,
      droppedUpdates: 0,
    };
    yield* requireChange(
      db
        .insertInto("acp_turns")
        .values(toAcpTurnColumns(row))
        .onConflict((conflict) => conflict.column("turn_id").doNothing()),
    );
  }

  *#append(sessionId: string, after: number, updates: readonly NewAcpUpdate[]): Steps<void> {
    const rows = updates.map(({ turnId, type, at, data }, index) => ({
      session_id: sessionId,
      seq: after + index + 1,
      turn_id: turnId,
      type,
      at,
      data: JSON.stringify(data),
    }));
    let done = 0;
    for (const size of INSERTED_AT_ONCE)
      for (; rows.length - done >= size; done += size)
        yield* countChanged(this.#engine.db.insertInto("acp_updates").values(rows.slice(done, done + size)));
  }
}

function* requireChange(statement: Parameters<typeof countChanged>[0]): Steps<void> {
  if ((yield* countChanged(statement)) === 0) throw new VersionConflict();
}
