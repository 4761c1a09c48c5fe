import type { AnchorHost } from "../anchor/host.js";
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
