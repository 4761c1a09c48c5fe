import { sql } from "kysely";
import type { RemoteStop } from "../../model/gateway.js";
import type { EventLog } from "../runs/events.js";
import { remoteStopTable } from "../schema.js";
import type { RemoteStopReads, RemoteStopWrites } from "./store.js";
import { countChanged, hasChanged, type Reader, type SqlEngine } from "../sql/engine.js";

/** A literal, not a parameter, so that the partial index is used. */
const isOpen = sql<boolean>`done_at is null`;

export function remoteStopQueries(reader: Reader): RemoteStopReads {
  const list = (column: "target" | "run_id", values: readonly string[]): Promise<readonly RemoteStop[]> =>
    reader.read(async (db) => {
      const query = db.selectFrom("commands").selectAll().where(column, "in", values).where(isOpen);
      const rows = await query.orderBy("created_at").orderBy("id").execute();
      return rows.map((row) => remoteStopTable.toRecord(row));
    }, []);
  return {
    getRemoteStop: (id) =>
      reader.read(async (db) => {
        const row = await db.selectFrom("commands").selectAll().where("id", "=", id).executeTakeFirst();
        return row === undefined ? null : remoteStopTable.toRecord(row);
      }, null),
    listRemoteStops: (targets) => list("target", targets),
    listRemoteStopsOfRun: (runId) => list("run_id", [runId]),
  };
}

export function remoteStopWrites(engine: SqlEngine, events: EventLog): RemoteStopWrites {
  const { db, dialect } = engine;
  const update = (id: string) => db.updateTable("commands").where("id", "=", id).where(isOpen);
  return {
    async insertRemoteStop({ graceMs, ...stop }, news) {
      const row = {
        ...remoteStopTable.toColumns({
          ...stop,
          graceMs: graceMs === null ? null : Math.round(graceMs),
          acceptedAt: null,
          doneAt: null,
          outcome: null,
          survivors: [],
          error: null,
        }),
        created_at: dialect.now(),
      };
      const insert = db.insertInto("commands").values(row);
      const inserted = await events.write(news, () =>
        hasChanged(insert.onConflict((conflict) => conflict.column("id").doNothing())),
      );
      if (inserted) engine.notifyTarget(stop.target);
      return inserted;
    },
    async acceptRemoteStop(id) {
      const accept = update(id).set({ accepted_at: dialect.now() }).where("accepted_at", "is", null);
      await engine.perform(() => countChanged(accept));
    },
    finishRemoteStop(id, { outcome, survivors, error }, news) {
      const result = remoteStopTable.toColumns({ outcome, survivors, error });
      return events.write(news, () => hasChanged(update(id).set({ ...result, done_at: dialect.now() })));
    },
    deleteRemoteStops(olderThanMs) {
      const before = sql<number>`${dialect.now()} - ${Math.ceil(olderThanMs)}`;
      return engine.perform(() => countChanged(db.deleteFrom("commands").where("created_at", "<", before)));
    },
  };
}
