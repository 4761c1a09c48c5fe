import { PeerUnreachable, type FarGateway } from "../../errors.js";
import type { GatewayStore } from "../../store/gateways/store.js";
import type { PublicGateway, GatewayRecord } from "../../model/gateway.js";
import type { RunRecord } from "../../model/run.js";
import { Peer } from "./peer.js";

export interface RunLocatorDeps {
  readonly store: Pick<GatewayStore, "listGateways" | "listHosts" | "getGateway"> & {
    readonly shared: boolean;
  };
  readonly instanceId: string;
  readonly hostId: string;
  readonly stateId: string;
}

/** Which gateway a run's directory is with: only that one can read its output and reach its anchor. */
export class RunLocator {
  readonly #deps: RunLocatorDeps;

  constructor(deps: RunLocatorDeps) {
    this.#deps = deps;
  }

  /** Null: it is this gateway's. */
  async remoteGatewayOf(record: RunRecord): Promise<FarGateway | null> {
    const { store, instanceId, hostId, stateId } = this.#deps;
    const { originInstanceId, ownerInstanceId } = record;
    if (!store.shared || record.stateId === stateId) return null;
    if (originInstanceId === instanceId || ownerInstanceId === instanceId) return null;
    const remoteGateway = await findOwningGateway(store, record);
    if (remoteGateway.instanceId === instanceId) return null;
    // From before runs said where they are, and nobody else is there to ask.
    return record.stateId === null && record.hostId === hostId && remoteGateway.heartbeatAt === null
      ? null
      : remoteGateway;
  }

  /** The way to it. */
  async peerFor(record: RunRecord | null): Promise<Peer | null> {
    const remoteGateway = record === null ? null : await this.remoteGatewayOf(record);
    if (record === null || remoteGateway === null) return null;
    const { store, instanceId } = this.#deps;
    const gateway: GatewayRecord | null = await store.getGateway(remoteGateway.instanceId);
    if (gateway === null)
      throw new PeerUnreachable(record.runId, remoteGateway, "no gateway of its state directory is known", {
        missing: "gateway",
      });
    const { runId } = record;
    return new Peer(instanceId, gateway, (why, how) => new PeerUnreachable(runId, gateway, why, how));
  }

  /** Whoever has passed it on was mistaken, and is not sent round in a circle. */
  async assertLocal(record: RunRecord | null): Promise<null> {
    const remoteGateway = record === null ? null : await this.remoteGatewayOf(record);
    if (record === null || remoteGateway === null) return null;
    throw new PeerUnreachable(
      record.runId,
      remoteGateway,
      "the gateway that was asked for it does not have it either",
    );
  }
}

/** Whoever has a run, if it is nobody here. Its own gateway may never have been heard of. */
export async function findOwningGateway(
  store: Pick<GatewayStore, "listGateways" | "listHosts">,
  record: RunRecord,
): Promise<FarGateway> {
  const { hostId, ownerInstanceId, stateId } = record;
  const found = pickGateway(record, await store.listGateways(stateId === null ? {} : { stateId }));
  if (found !== undefined) return found;
  const hostName = (await store.listHosts()).find((each) => each.hostId === hostId)?.name ?? "";
  return { instanceId: ownerInstanceId, hostId, hostName, heartbeatAt: null };
}

/** The gateway of its state directory; of a run that does not say which, its owner's, or one of its host. */
function pickGateway(
  { stateId, originInstanceId, ownerInstanceId, hostId, state }: RunRecord,
  gateways: readonly PublicGateway[],
): PublicGateway | undefined {
  const latest = gateways.toSorted((one, other) => other.heartbeatAt - one.heartbeatAt);
  if (stateId !== null) return latest[0];
  return (
    latest.find((each) => each.instanceId === ownerInstanceId) ??
    latest.find((each) => each.instanceId === originInstanceId) ??
    (state === "exited" ? undefined : latest.find((each) => each.hostId === hostId))
  );
}
