import { databaseAddress } from "../../store/database-address.js";
import type { RunRecord } from "../../store/run-record.js";
import { observeStateId } from "../../store/state-id.js";
import type { FoundRun } from "./find-run.js";
import type { Observatory } from "./observer.js";

/** Whether other hosts keep their runs where this one does. */
export async function isShared(): Promise<boolean> {
  return (await databaseAddress()) !== null;
}

/** On record, and of another state directory, here or on another host: only the gateway there can do anything about it. */
export async function isElsewhere(
  { directory, host }: Observatory,
  { address, record }: Pick<FoundRun, "address" | "record">,
): Promise<boolean> {
  if (address !== null || record === null || !(await isShared())) return false;
  return isOfAnother(record, await observeStateId(directory.home), await localInstances(host));
}

export async function localInstances(host: Observatory["host"]): Promise<ReadonlySet<string>> {
  return new Set((await host.instances()).map(({ instanceId }) => instanceId));
}

export function isOfAnother(
  { stateId, originInstanceId }: RunRecord,
  here: string | null,
  instances: ReadonlySet<string>,
): boolean {
  return stateId === null ? !instances.has(originInstanceId) : stateId !== here;
}
