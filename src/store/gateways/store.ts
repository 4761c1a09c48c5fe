import type { PublicGateway, GatewayRecord, HostInfo, HostRecord, NewGateway } from "../../model/gateway.js";

export interface GatewayFilter {
  /** Only those of this state directory. */
  readonly stateId?: string;
}

/** Who uses the store: gateways, and the hosts that they and other supervisors are on. */
export interface GatewayStore {
  /**
   * From now on it is there, with its host. False, and nothing written, while a gateway of the same id is heard of from
   * another host or directory: a copy of a state directory must not pass for the original.
   */
  registerGateway(gateway: NewGateway): Promise<boolean>;
  /** It is still there. False: nobody knows of it, or it has said good-bye. */
  heartbeatGateway(instanceId: string): Promise<boolean>;
  /** It says good-bye. */
  retireGateway(instanceId: string): Promise<void>;
  /** By host name. */
  listGateways(filter?: GatewayFilter): Promise<readonly PublicGateway[]>;
  getGateway(instanceId: string): Promise<GatewayRecord | null>;
  /** False: there is none, or it was heard of within `silentMs` and has not said good-bye. Asked in the statement that forgets. */
  deleteGateway(instanceId: string, silentMs?: number): Promise<boolean>;
  /**
   * Forget gateways that were not heard of for so long and have no open run, and hosts of which nothing else is on
   * record. Returns how many gateways.
   */
  deleteSilentGateways(silentMs: number): Promise<number>;
  /** What this host is called; writes only what is not known yet. */
  registerHost(host: HostInfo): Promise<void>;
  /** By name. */
  listHosts(): Promise<readonly HostRecord[]>;
  /** How many open runs each instance holds that holds any. */
  countOpenRunsByOwner(): Promise<ReadonlyMap<string, number>>;
  /** Existing tables that the database user may not write to. Always empty for SQLite. */
  unwritableTables(): Promise<readonly string[]>;
}
