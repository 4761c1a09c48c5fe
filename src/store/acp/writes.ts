import { sql } from "kysely";
import type { AcpTurn, NewAcpTurn } from "../../model/acp/session-and-turn.js";
import { isNotice, isUndelivered, isWaiting } from "../messages/queries.js";
import { takeSessionPlace } from "../messages/writes.js";
import type { EventLog } from "../runs/event-log.js";
import { acpSessionTable, acpTurnTable, permissionRequestTable, rememberedRuleTable } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { shapeOf } from "../sql/statement-cache.js";
import type { AcpChange, AcpTurnPatch, AcpWrites } from "./contract.js";
import { insertUpdates } from "./insert-updates.js";

const pending = sql<boolean>`verdict is null`;

/** Rolls back the transaction that throws it. */
class VersionConflict extends Error {}

export function acpWrites(engine: SqlEngine, events: EventLog): AcpWrites {
  const { db } = engine;
  return {
    insertAcpSession(session) {
      const insert = db.insertInto("acp_sessions").values(acpSessionTable.toColumns(session));
      const once = insert.onConflict((conflict) => conflict.column("session_id").doNothing());
      return engine.perform(() => hasChanged(once));
    },
    async commitAcpChange(sessionId, gatewayInstanceId, change) {
      try {
        const seq = await engine.transact(function* () {
          const last = yield* commitChange(engine, sessionId, gatewayInstanceId, change);
          yield* events.append(change.events ?? []);
          return last;
        });
        if ((change.events?.length ?? 0) > 0) engine.notifyEvents();
        return seq;
      } catch (error) {
        if (error instanceof VersionConflict) return null;
        throw error;
      }
    },
    async insertRememberedRule(rule) {
      const insert = db.insertInto("acp_permission_rules").values(rememberedRuleTable.toColumns(rule));
      // A repeated insert, after an answer was lost, is the same rule.
      const once = insert.onConflict((conflict) => conflict.column("id").doNothing());
      await engine.perform(() => countChanged(once));
    },
    revokeRememberedRule(id, actor, at) {
      const revoke = db
        .updateTable("acp_permission_rules")
        .set({ revoked_at: at, revoked_by: actor })
        .where("id", "=", id)
        .where("revoked_at", "is", null);
      return engine.perform(() => hasChanged(revoke));
    },
    deleteAcpUpdates(endedBefore) {
      const old = db
        .selectFrom("acp_turns")
        .select("turn_id")
        .where("state", "=", "ended")
        .where("ended_at", "<", endedBefore);
      return engine.perform(() => countChanged(db.deleteFrom("acp_updates").where("turn_id", "in", old)));
    },
  };
}

/** Updates the session's row first: its lock orders concurrent changes of the session. */
function* commitChange(
  engine: SqlEngine,
  sessionId: string,
  gatewayInstanceId: string,
  change: AcpChange,
): Steps<number> {
  const { db } = engine;
  const { updates = [], turns = [], decide = [], answered = [] } = change;
  const [row] = yield* fetchRows(updateSession(engine, sessionId, gatewayInstanceId, change));
  if (row === undefined) throw new VersionConflict();
  const { newTurn } = change;
  if (newTurn !== undefined)
    yield* addTurn(engine, sessionId, newTurn, turns.find(({ turnId }) => turnId === newTurn.turnId)?.set);
  for (const patch of turns)
    if (patch.turnId !== newTurn?.turnId) yield* requireChange(updateTurn(engine, patch));
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
    // The message was read elsewhere. A new turn is not made for it; a turn that only takes it along continues.
    if (taken === 0 && change.newTurn !== undefined) throw new VersionConflict();
  }
  if (delivered !== undefined)
    yield* countChanged(
      engine.statements.bind("messages of a turn are delivered", delivered, ({ turnId, at }) =>
        db
          .updateTable("session_messages")
          .set({ delivered_at: at })
          .where("turn_id", "=", turnId)
          .where(isUndelivered),
      ),
    );
  for (const { turnId, set } of turns)
    if (set.state === "ended")
      yield* countChanged(
        engine.statements.bind("notices of a turn are not delivered", { turnId }, (ended) =>
          db
            .updateTable("session_messages")
            .set((column) => ({ turn_id: null, in_vain: column("in_vain", "+", 1) }))
            .where("turn_id", "=", ended.turnId)
            .where(isUndelivered)
            .where(isNotice),
        ),
      );
  if (change.newPermission !== undefined)
    yield* countChanged(
      db.insertInto("acp_permissions").values(permissionRequestTable.toColumns(change.newPermission)),
    );
  for (const { id, decision } of decide)
    yield* requireChange(
      db
        .updateTable("acp_permissions")
        .set(permissionRequestTable.toColumns({ decision }))
        .where("id", "=", id)
        .where(pending),
    );
  if (change.newRule !== undefined)
    yield* countChanged(
      db.insertInto("acp_permission_rules").values(rememberedRuleTable.toColumns(change.newRule)),
    );
  for (const id of answered)
    yield* countChanged(db.updateTable("acp_permissions").set({ answered: 1 }).where("id", "=", id));
  yield* insertUpdates(engine, sessionId, row.last_seq - updates.length, updates);
  return row.last_seq;
}

function updateSession(
  { db, statements }: SqlEngine,
  sessionId: string,
  gatewayInstanceId: string,
  { session = {}, updates = [], version }: AcpChange,
) {
  const values = {
    ...acpSessionTable.toColumns(session),
    updated_at: Date.now(),
    of_session: sessionId,
    of_gateway: gatewayInstanceId,
    added: updates.length,
    ...(version === undefined ? {} : { of_version: version }),
  };
  return statements.bind(shapeOf("change an ACP session", values), values, (given) => {
    const { of_session, of_gateway, added, of_version, ...places } = given;
    const update = db
      .updateTable("acp_sessions")
      .set({
        ...places,
        last_seq: sql<number>`last_seq + ${added}`,
        version: sql<number>`version + 1`,
      })
      .where("session_id", "=", of_session)
      .where("gateway_instance_id", "=", of_gateway);
    const asKnown = version === undefined ? update : update.where("version", "=", of_version);
    return asKnown.returning("last_seq");
  });
}

function updateTurn(
  { db, statements }: SqlEngine,
  { turnId, from, set }: NonNullable<AcpChange["turns"]>[number],
) {
  const values = { ...acpTurnTable.toColumns(set), of_turn: turnId, from_state: from };
  return statements.bind(shapeOf("change an ACP turn", values), values, (given) => {
    const { of_turn, from_state, ...places } = given;
    return db
      .updateTable("acp_turns")
      .set(places)
      .where("turn_id", "=", of_turn)
      .where("state", "=", from_state);
  });
}

/** `set`: the fields that the same change sets on the new turn. */
function* addTurn(
  { db, statements }: SqlEngine,
  sessionId: string,
  turn: NewAcpTurn,
  set: AcpTurnPatch = {},
): Steps<void> {
  const [last] = yield* fetchRows(
    statements.bind("the last turn of an ACP session", { sessionId }, (given) =>
      db
        .selectFrom("acp_turns")
        .select((column) => column.fn.max("ordinal").as("ordinal"))
        .where("session_id", "=", given.sessionId),
    ),
  );
  const place = turn.place ?? (yield* takeSessionPlace(db, sessionId));
  if (place === null) throw new VersionConflict();
  const blank = { startedAt: null, endedAt: null, requestId: null, before: null, cancel: null } as const;
  const active = { stalledAt: null, omittedChars: 0 } as const;
  const unended = { outcome: null, stopReason: null, problem: null, audit: null, text: "" } as const;
  const row: AcpTurn = {
    ...turn,
    ...blank,
    ...unended,
    ...active,
    sessionId,
    ordinal: (last?.ordinal ?? 0) + 1,
    place,
    state: "queued",
    toolCalls: [],
    contextLost: false,
    keptBytes: 0,
    droppedUpdates: 0,
    ...set,
  };
  const columns = acpTurnTable.toColumns(row);
  yield* requireChange(
    statements.bind(shapeOf("insert an ACP turn", columns), columns, (places) =>
      db
        .insertInto("acp_turns")
        .values(places)
        .onConflict((conflict) => conflict.column("turn_id").doNothing()),
    ),
  );
}

function* requireChange(statement: Parameters<typeof hasChanged>[0]): Steps<void> {
  if (!(yield* hasChanged(statement))) throw new VersionConflict();
}
