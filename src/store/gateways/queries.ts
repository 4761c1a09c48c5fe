import { sql } from "kysely";
import type { Kysely } from "kysely";
import { toPublicGateway, toGatewayRecord, toHostRecord } from "./rows.js";
import type { PublicGateway, GatewayRecord, HostRecord } from "../../model/gateway.js";
import type { GatewayFilter } from "./store.js";
import type { Schema } from "../schema.js";

/** Every column but the key and the directory. */
const PUBLIC_COLUMNS = [
  "instance_id",
  "host_id",
  "host_name",
  "boot_id",
  "pid_namespace",
  "state_id",
  "version",
  "capabilities",
  "address",
  "started_at",
  "heartbeat_at",
  "stopped_at",
] as const;

export async function listGateways(
  db: Kysely<Schema>,
  { stateId }: GatewayFilter = {},
): Promise<readonly PublicGateway[]> {
  let query = db.selectFrom("gateways").select(PUBLIC_COLUMNS).orderBy("host_name").orderBy("instance_id");
  if (stateId !== undefined) query = query.where("state_id", "=", stateId);
  return (await query.execute()).map(toPublicGateway);
}

export async function getGateway(db: Kysely<Schema>, instanceId: string): Promise<GatewayRecord | null> {
  const row = await db
    .selectFrom("gateways")
    .selectAll()
    .where("instance_id", "=", instanceId)
    .executeTakeFirst();
  return row === undefined ? null : toGatewayRecord(row);
}

export async function listHosts(db: Kysely<Schema>): Promise<readonly HostRecord[]> {
  const rows = await db.selectFrom("hosts").selectAll().orderBy("name").orderBy("host_id").execute();
  return rows.map(toHostRecord);
}

export async function countOpenRunsByOwner(db: Kysely<Schema>): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom("runs")
    .select((of) => ["owner_instance_id", of.fn.countAll<number>().as("held")])
    // The literal lets the index of live runs serve.
    .where(sql<boolean>`state <> 'exited'`)
    .groupBy("owner_instance_id")
    .execute();
  return new Map(rows.map(({ owner_instance_id, held }) => [owner_instance_id, held]));
}
