import type { AnchorHost } from "../anchor/host.js";
import type { RunRecord } from "../store/run-record.js";
import type { RunFilter, RunStore } from "../store/store.js";

/** Which runs are of this state directory. In a store of its own all of them are. */
export async function stateScope(
  { shared }: Pick<RunStore, "shared">,
  host: Pick<AnchorHost, "instances">,
  stateId: string | null,
): Promise<Pick<RunFilter, "ofState">> {
  if (!shared) return {};
  const instances = await host.instances();
  return { ofState: { stateId, instanceIds: instances.map(({ instanceId }) => instanceId) } };
}

/** The same for one record. */
export function isInScope(
  { stateId, originInstanceId }: Pick<RunRecord, "stateId" | "originInstanceId">,
  { ofState }: Pick<RunFilter, "ofState">,
): boolean {
  if (ofState === undefined) return true;
  return stateId === null ? ofState.instanceIds.includes(originInstanceId) : stateId === ofState.stateId;
}
