import { type Kysely, sql } from "kysely";
import type { GatewayRecord, HostRecord, PublicGateway } from "../../model/gateway.js";
import { gatewayTable, hostTable, type Schema } from "../schema.js";
import type { Reader } from "../sql/engine.js";
import type { GatewayFilter, GatewayReads } from "./store.js";

export function gatewayQueries(reader: Reader): GatewayReads {
  return {
    listGateways: (filter) => reader.read((db) => listGateways(db, filter), []),
    getGateway: (instanceId) => reader.read((db) => getGateway(db, instanceId), null),
    listHosts: () => reader.read(listHosts, []),
    countOpenRunsByOwner: () => reader.read(countOpenRunsByOwner, new Map()),
  };
}

async function listGateways(
  db: Kysely<Schema>,
  { stateId }: GatewayFilter = {},
): Promise<readonly PublicGateway[]> {
  let query = db.selectFrom("gateways").selectAll().orderBy("host_name").orderBy("instance_id");
  if (stateId !== undefined) query = query.where("state_id", "=", stateId);
  return (await query.execute()).map((row) => {
    const { peerKey: _key, directory: _directory, ...shown } = gatewayTable.toRecord(row);
    return shown;
  });
}

async function getGateway(db: Kysely<Schema>, instanceId: string): Promise<GatewayRecord | null> {
  const query = db.selectFrom("gateways").selectAll().where("instance_id", "=", instanceId);
  const row = await query.executeTakeFirst();
  return row === undefined ? null : gatewayTable.toRecord(row);
}

async function listHosts(db: Kysely<Schema>): Promise<readonly HostRecord[]> {
  const rows = await db.selectFrom("hosts").selectAll().orderBy("name").orderBy("host_id").execute();
  return rows.map((row) => hostTable.toRecord(row));
}

async function countOpenRunsByOwner(db: Kysely<Schema>): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom("runs")
    .select((of) => ["owner_instance_id", of.fn.countAll<number>().as("held")])
    // A literal, so that the partial index of open runs is used.
    .where(sql<boolean>`state <> 'exited'`)
    .groupBy("owner_instance_id")
    .execute();
  return new Map(rows.map(({ owner_instance_id, held }) => [owner_instance_id, held]));
}
