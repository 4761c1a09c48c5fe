import type { FarGateway } from "../errors.js";
import type { PublicGateway } from "../model/gateway.js";
import type { RunRecord } from "../model/run.js";
import type { GatewayStore } from "../store/gateways/store.js";

/** The gateway that owns a run of another state directory. It may never have registered. */
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

/** The gateway of the run's state directory. For a run without a state id: its owner, its origin, or one of its host. */
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
