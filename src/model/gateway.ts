import type {
  gatewayCapabilitiesSchema,
  gatewaySchema,
  hostSchema,
  peerAddressSchema,
  remoteStopSchema,
} from "./schema/gateway.js";
import type { RecordOf } from "./schema/record-of.js";

export type PeerAddress = RecordOf<typeof peerAddressSchema>;
export type GatewayCapabilities = RecordOf<typeof gatewayCapabilitiesSchema>;

export type GatewayRecord = RecordOf<typeof gatewaySchema>;
export type NewGateway = Omit<GatewayRecord, "heartbeatAt" | "stoppedAt">;
/** The fields that may be shown. */
export type PublicGateway = Omit<GatewayRecord, "peerKey" | "directory">;

export type HostRecord = RecordOf<typeof hostSchema>;
export type HostInfo = Pick<HostRecord, "hostId" | "name" | "platform">;

export type RemoteStop = RecordOf<typeof remoteStopSchema>;
export type RemoteStopOutcome = NonNullable<RemoteStop["outcome"]>;
export type NewRemoteStop = Pick<
  RemoteStop,
  "id" | "runId" | "target" | "kind" | "actor" | "graceMs" | "handedOverBy"
>;
export type RemoteStopResult = Pick<RemoteStop, "survivors" | "error"> & {
  readonly outcome: RemoteStopOutcome;
};
