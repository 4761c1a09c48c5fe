import type { GatewayRecord, HostInfo, HostRecord, NewGateway, PublicGateway } from "../../model/gateway.js";

export interface GatewayFilter {
  /** Only gateways of this state directory. */
  readonly stateId?: string;
}

export interface GatewayReads {
  /** By host name. */
  listGateways(filter?: GatewayFilter): Promise<readonly PublicGateway[]>;
  getGateway(instanceId: string): Promise<GatewayRecord | null>;
  /** By name. */
  listHosts(): Promise<readonly HostRecord[]>;
  /** The number of open runs of each instance that owns any. */
  countOpenRunsByOwner(): Promise<ReadonlyMap<string, number>>;
}

export interface GatewayWrites {
  /**
   * Registers the gateway and its host. False, and nothing written, while a gateway with the same id sends heartbeats
   * from another host or directory: a copy of a state directory must not replace the original.
   */
  registerGateway(gateway: NewGateway): Promise<boolean>;
  /** Records that the gateway is alive. False: it is not registered, or has stopped. */
  heartbeatGateway(instanceId: string): Promise<boolean>;
  /** Records that the gateway has stopped. */
  retireGateway(instanceId: string): Promise<void>;
  /** False: there is none, or it sent a heartbeat within `silentMs` and has not stopped. Checked by the same statement. */
  deleteGateway(instanceId: string, silentMs?: number): Promise<boolean>;
  /**
   * Deletes gateways that were silent for so long and have no open run, and hosts without any other record. Returns how
   * many gateways.
   */
  deleteSilentGateways(silentMs: number): Promise<number>;
  /** Records name and platform of this host, if they are not recorded yet. */
  registerHost(host: HostInfo): Promise<void>;
  /** Existing tables that the database user may not write to. Always empty for SQLite. */
  unwritableTables(): Promise<readonly string[]>;
}

export interface GatewayStore extends GatewayReads, GatewayWrites {}
