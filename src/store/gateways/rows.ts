import type { Expression, InsertObject, Selectable } from "kysely";
import type { PublicGateway, GatewayRecord, HostRecord, NewGateway } from "../../model/gateway.js";
import type { GatewayTable, HostTable, Schema } from "../schema.js";

export function toGatewayColumns(
  gateway: NewGateway,
  heartbeatAt: Expression<number>,
): InsertObject<Schema, "gateways"> {
  return {
    instance_id: gateway.instanceId,
    host_id: gateway.hostId,
    host_name: gateway.hostName,
    boot_id: gateway.bootId,
    pid_namespace: gateway.pidNamespace,
    state_id: gateway.stateId,
    directory: gateway.directory,
    version: gateway.version,
    capabilities: JSON.stringify(gateway.capabilities),
    address: gateway.address === null ? null : JSON.stringify(gateway.address),
    peer_key: gateway.peerKey,
    started_at: gateway.startedAt,
    heartbeat_at: heartbeatAt,
    stopped_at: null,
  };
}

/** All but the key, and which directory. */
export function toPublicGateway(
  row: Omit<Selectable<GatewayTable>, "peer_key" | "directory">,
): PublicGateway {
  return {
    instanceId: row.instance_id,
    hostId: row.host_id,
    hostName: row.host_name,
    bootId: row.boot_id,
    pidNamespace: row.pid_namespace,
    stateId: row.state_id,
    version: row.version,
    capabilities: JSON.parse(row.capabilities) as PublicGateway["capabilities"],
    address: row.address === null ? null : (JSON.parse(row.address) as PublicGateway["address"]),
    startedAt: row.started_at,
    heartbeatAt: row.heartbeat_at,
    stoppedAt: row.stopped_at,
  };
}

export function toGatewayRecord(row: Selectable<GatewayTable>): GatewayRecord {
  return { ...toPublicGateway(row), directory: row.directory, peerKey: row.peer_key };
}

export function toHostRecord(row: Selectable<HostTable>): HostRecord {
  return {
    hostId: row.host_id,
    name: row.name,
    platform: row.platform,
    firstSeenAt: row.first_seen_at,
    lastSeenAt: row.last_seen_at,
  };
}
