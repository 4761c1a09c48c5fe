import { z } from "zod";
import type { RecordOf } from "./record-type.js";
import { survivorSchema } from "./run-schema.js";

/** The address at which other gateways reach a gateway. */
const peerAddressSchema = z.object({ host: z.string(), port: z.int() });

/** The features that a gateway offers to runs. */
const gatewayCapabilitiesSchema = z.object({
  platform: z.string(),
  arch: z.string(),
  /** The first part of the tier of its runs: `cgroup`, `subreaper`, `job`, `lineage` or `group`. */
  tier: z.string(),
  pty: z.boolean(),
  /** The limits that a run can have: of `memory`, `pids`, `cpu`. */
  limits: z.array(z.string()),
  anchorProtocol: z.int(),
});

/** A gateway as it registered itself. */
export const gatewaySchema = z.object({
  instanceId: z.string(),
  hostId: z.string(),
  /** The host's name for people. Any text: sanitized when shown. */
  hostName: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  stateId: z.string(),
  /** The path of the state directory on its host. A copy has the same state id and another path. */
  directory: z.string(),
  version: z.string(),
  capabilities: gatewayCapabilitiesSchema,
  /** Null: others cannot reach it. */
  address: peerAddressSchema.nullable(),
  /** Secret between gateways, new with each incarnation. Never shown. */
  peerKey: z.string().nullable(),
  startedAt: z.number(),
  /** On the store's clock. */
  heartbeatAt: z.number(),
  /** When the gateway stopped; null: it did not report that. */
  stoppedAt: z.number().nullable(),
});

/** A host that has, or had, runs or a gateway in this store. */
const hostSchema = z.object({
  hostId: z.string(),
  /** Empty: unknown, because no supervisor has registered since names are recorded. */
  name: z.string(),
  platform: z.string(),
  firstSeenAt: z.number(),
  /** When a supervisor on it last registered. */
  lastSeenAt: z.number(),
});

/** Result of a remote stop; `failed`: it could not be tried, and the error says why. */
const remoteStopOutcomeSchema = z.enum(["gone", "ended-before", "survivors", "unknown", "failed"]);

/** A stop that one gateway passes to another through the store. It is carried out at least once and acknowledged once. */
const remoteStopSchema = z.object({
  /** Id of the request: a repeated request is the same remote stop. */
  id: z.string(),
  runId: z.string(),
  /** The state directory whose gateway carries it out; for a run without a state id, an instance. */
  target: z.string(),
  kind: z.literal("stop"),
  actor: z.string(),
  /** Null: the run's own. */
  graceMs: z.number().nullable(),
  /** The gateway that was asked. */
  handedOverBy: z.string(),
  /** On the store's clock, like the next two. */
  createdAt: z.number(),
  /** When the target accepted it; null: not yet. */
  acceptedAt: z.number().nullable(),
  doneAt: z.number().nullable(),
  /** Null until it is done, like the error. */
  outcome: remoteStopOutcomeSchema.nullable(),
  survivors: z.array(survivorSchema),
  error: z.string().nullable(),
});

export type PeerAddress = RecordOf<typeof peerAddressSchema>;
export type GatewayCapabilities = RecordOf<typeof gatewayCapabilitiesSchema>;

export type GatewayRecord = RecordOf<typeof gatewaySchema>;
export type NewGateway = Omit<GatewayRecord, "heartbeatAt" | "stoppedAt">;
/** The fields that may be shown. */
export type PublicGateway = Omit<GatewayRecord, "peerKey" | "directory">;

/**
 * `up`: sent a heartbeat within a lease. `silent`: did not. `unreachable`: did not for so long that its runs count as
 * stalled. `stopped`: reported that it stopped.
 */
type GatewayStatus = "up" | "silent" | "unreachable" | "stopped";

export interface GatewayWithStatus extends PublicGateway {
  readonly presence: GatewayStatus;
  /** On the reader's clock; null: before the last boot of its host. */
  readonly lastHeardAt: number | null;
  /** How many open runs it owns. */
  readonly runs: number;
}

export type HostRecord = RecordOf<typeof hostSchema>;
export type HostInfo = Pick<HostRecord, "hostId" | "name" | "platform">;

export type RemoteStop = RecordOf<typeof remoteStopSchema>;
type RemoteStopOutcome = NonNullable<RemoteStop["outcome"]>;
export type NewRemoteStop = Pick<
  RemoteStop,
  "id" | "runId" | "target" | "kind" | "actor" | "graceMs" | "handedOverBy"
>;
export type RemoteStopResult = Pick<RemoteStop, "survivors" | "error"> & {
  readonly outcome: RemoteStopOutcome;
};
