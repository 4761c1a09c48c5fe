/** Where other gateways reach one. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

/** What a gateway can offer to runs. */
export interface GatewayCapabilities {
  readonly platform: string;
  readonly arch: string;
  /** How runs are bounded there: `cgroup`, or `subreaper` alone. */
  readonly tier: string;
  readonly pty: boolean;
  /** Which limits a run can be given: of `memory`, `pids`, `cpu`. */
  readonly limits: readonly string[];
  readonly anchorProtocol: number;
}

/** A gateway, as it has announced itself. */
export interface GatewayRecord {
  readonly instanceId: string;
  readonly hostId: string;
  /** As a person knows it. Any text: sanitized when shown. */
  readonly hostName: string;
  readonly bootId: string;
  readonly pidNamespace: string;
  readonly stateId: string;
  /** Which directory that is on its host: a copy has the id, and another place. */
  readonly directory: string;
  readonly version: string;
  readonly capabilities: GatewayCapabilities;
  /** Null: others cannot reach it. */
  readonly address: PeerAddress | null;
  /** Between gateways, new with each incarnation. Never shown. */
  readonly peerKey: string | null;
  readonly startedAt: number;
  /** On the store's clock. */
  readonly heartbeatAt: number;
  /** When it said good-bye; null: it has not. */
  readonly stoppedAt: number | null;
}

export type NewGateway = Omit<GatewayRecord, "heartbeatAt" | "stoppedAt">;

/** All of it that anybody may see. */
export type PublicGateway = Omit<GatewayRecord, "peerKey" | "directory">;

/** A host that has, or had, runs or a gateway in this store. */
export interface HostRecord {
  readonly hostId: string;
  /** Empty: its runs are older than names, and it has not come back. */
  readonly name: string;
  readonly platform: string;
  readonly firstSeenAt: number;
  /** When a supervisor of it last introduced itself. */
  readonly lastSeenAt: number;
}

export type HostInfo = Pick<HostRecord, "hostId" | "name" | "platform">;
