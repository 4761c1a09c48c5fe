import type {
  GatewayRecord,
  HostInfo,
  HostRecord,
  NewGateway,
  NewRemoteStop,
  PublicGateway,
  RemoteStop,
  RemoteStopResult,
} from "../../model/gateway.js";
import type { NewRunEvent } from "../../model/run-event.js";

export interface GatewayReads {
  /** By host name. `stateId`: only gateways of this state directory. */
  listGateways(filter?: { readonly stateId?: string }): Promise<readonly PublicGateway[]>;
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

export interface RemoteStopReads {
  getRemoteStop(id: string): Promise<RemoteStop | null>;
  /** Remote stops for one of these targets that are not done, oldest first. */
  listRemoteStops(targets: readonly string[]): Promise<readonly RemoteStop[]>;
  /** Remote stops of this run that are not done, oldest first. */
  listRemoteStopsOfRun(runId: string): Promise<readonly RemoteStop[]>;
}

export interface RemoteStopWrites {
  /** Inserts a remote stop and wakes its target. False, and nothing written: the id exists. */
  insertRemoteStop(stop: NewRemoteStop, events: readonly NewRunEvent[]): Promise<boolean>;
  /** The target has begun to carry it out. */
  acceptRemoteStop(id: string): Promise<void>;
  /** Writes the result, with its event. False, and nothing written: there is a result already. */
  finishRemoteStop(id: string, result: RemoteStopResult, events: readonly NewRunEvent[]): Promise<boolean>;
  /** Deletes remote stops that are older on the store's clock, done or not. Returns how many. */
  deleteRemoteStops(olderThanMs: number): Promise<number>;
}

export interface RemoteStopStore extends RemoteStopReads, RemoteStopWrites {}
