import { type Kysely, sql } from "kysely";
import { defaults } from "../../defaults.js";
import type { GatewayWithStatus, PublicGateway, RemoteStop } from "../../model/gateway.js";
import { gatewayTable, hostTable, remoteStopTable, type Schema } from "../schema.js";
import { equals, type Reader } from "../sql/engine.js";
import type { ReadStore } from "../store.js";
import type { GatewayReads, RemoteStopReads } from "./contract.js";

/** Not `peer_key`: roles that only read may not select it. */
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

export function gatewayQueries(reader: Reader): GatewayReads {
  return {
    listGateways: ({ stateId } = {}) =>
      reader.read(async (db) => {
        const query = db
          .selectFrom("gateways")
          .select(PUBLIC_COLUMNS)
          .where(equals("gateways", { state_id: stateId }));
        return gatewayTable.list(query.orderBy("host_name").orderBy("instance_id"));
      }, []),
    getGateway: (instanceId) =>
      reader.read((db) => {
        const query = db.selectFrom("gateways").selectAll().where("instance_id", "=", instanceId);
        return gatewayTable.first(query);
      }, null),
    listHosts: () =>
      reader.read(
        (db) => hostTable.list(db.selectFrom("hosts").selectAll().orderBy("name").orderBy("host_id")),
        [],
      ),
    countOpenRunsByOwner: () => reader.read(countOpenRunsByOwner, new Map()),
  };
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

/** `silentMs` null: measured on the clock of another boot. */
export function gatewayStatus(
  { stoppedAt }: Pick<PublicGateway, "stoppedAt">,
  silentMs: number | null,
): GatewayWithStatus["presence"] {
  if (stoppedAt !== null) return "stopped";
  if (silentMs === null || silentMs > defaults.stalledOwnerMs) return "unreachable";
  return silentMs > defaults.leaseMs ? "silent" : "up";
}

/** All gateways with their status and number of open runs. */
export async function listGatewaysWithStatus(
  store: Pick<ReadStore, "listGateways" | "countOpenRunsByOwner" | "now" | "shared">,
  bootId: string,
  wall: number,
): Promise<readonly GatewayWithStatus[]> {
  const [gateways, held, now] = await Promise.all([
    store.listGateways(),
    store.countOpenRunsByOwner(),
    store.now(),
  ]);
  return gateways.map((gateway) => {
    const sameClock = store.shared || gateway.bootId === bootId;
    const silentMs = sameClock ? Math.max(0, now - gateway.heartbeatAt) : null;
    return {
      ...gateway,
      presence: gatewayStatus(gateway, silentMs),
      lastHeardAt: silentMs === null ? null : wall - silentMs,
      runs: held.get(gateway.instanceId) ?? 0,
    };
  });
}

/** The remote stop is not done. A literal, not a parameter, so that the partial index is used. */
export const isOpenStop = sql<boolean>`done_at is null`;

export function remoteStopQueries(reader: Reader): RemoteStopReads {
  const listOpen = (given: Parameters<typeof equals<"commands">>[1]): Promise<readonly RemoteStop[]> =>
    reader.read((db) => {
      const query = db.selectFrom("commands").selectAll().where(equals("commands", given)).where(isOpenStop);
      return remoteStopTable.list(query.orderBy("created_at").orderBy("id"));
    }, []);
  return {
    getRemoteStop: (id) =>
      reader.read(
        (db) => remoteStopTable.first(db.selectFrom("commands").selectAll().where("id", "=", id)),
        null,
      ),
    listRemoteStops: (targets) => listOpen({ target: targets }),
    listRemoteStopsOfRun: (runId) => listOpen({ run_id: runId }),
  };
}
