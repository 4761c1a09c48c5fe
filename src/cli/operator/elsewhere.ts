import { databaseUrl } from "../../config/database-url.js";
import type { RunRecord } from "../../model/run.js";
import { readStateId } from "../../store/state-id.js";
import type { FoundRun } from "../client/resolve-run.js";
import type { LocalState } from "../client/local-state.js";

/** Whether other hosts keep their runs where this one does. */
export async function isStoreShared(): Promise<boolean> {
  return (await databaseUrl()) !== null;
}

/** On record, and of another state directory, here or on another host: only the gateway there can do anything about it. */
export async function isOwnedElsewhere(
  { directory, host }: LocalState,
  { address, record }: Pick<FoundRun, "address" | "record">,
): Promise<boolean> {
  if (address !== null || record === null || !(await isStoreShared())) return false;
  return isOfOtherState(record, await readStateId(directory.home), await localInstanceIds(host));
}

export async function localInstanceIds(host: LocalState["host"]): Promise<ReadonlySet<string>> {
  return new Set((await host.listInstances()).map(({ instanceId }) => instanceId));
}

export function isOfOtherState(
  { stateId, originInstanceId }: RunRecord,
  here: string | null,
  instances: ReadonlySet<string>,
): boolean {
  return stateId === null ? !instances.has(originInstanceId) : stateId !== here;
}
