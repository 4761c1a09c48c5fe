import type { AnchorHost } from "../anchor/host.js";
import type { RunFilter, RunStore } from "../store/store.js";

/** Which runs are of this state directory. In a store of its own all of them are. */
export async function stateDirectoryFilter(
  { shared }: Pick<RunStore, "shared">,
  host: Pick<AnchorHost, "listInstances">,
  stateId: string | null,
): Promise<Pick<RunFilter, "ofState">> {
  if (!shared) return {};
  const instances = await host.listInstances();
  return { ofState: { stateId, instanceIds: instances.map(({ instanceId }) => instanceId) } };
}
