import type { RunAddress } from "../anchor/host-interface.js";
import type { NativeObserver } from "../anchor/native-observer.js";
import { databaseUrl } from "../config/database-url.js";
import { observeMachineIdentity } from "../home/machine-identity.js";
import { readStateId } from "../home/state-id.js";
import { resolveHome, type StateDirectory } from "../home/state-directory.js";
import type { RunRecord } from "../model/run.js";
import { findStateDirectory } from "../store/open-state-directory.js";

/** The state directory and its processes, for operator commands that need neither gateway nor store. */
export interface LocalState extends AsyncDisposable {
  readonly directory: StateDirectory;
  readonly host: NativeObserver;
}

/** Null: there is no state directory, so nothing was ever run. */
export async function openLocalState(home = resolveHome()): Promise<LocalState | null> {
  const directory = await findStateDirectory(home);
  if (directory === null) return null;
  const host = await openLocalObserver(directory);
  return { directory, host, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

export async function openLocalObserver({ home }: StateDirectory): Promise<NativeObserver> {
  const [{ findAnchorBinary: findAnchor }, { openNativeObserver: observeNatively }] = await Promise.all([
    import("../anchor/binary.js"),
    import("../anchor/native-observer.js"),
  ]);
  return observeNatively(home, await observeMachineIdentity(home), findAnchor());
}

/** True if the store is a database that other hosts may share. */
export async function isStoreShared(): Promise<boolean> {
  return (await databaseUrl()) !== null;
}

/** True if the run belongs to another state directory, here or on another host: only the gateway there can act on it. */
export async function isOwnedElsewhere(
  { directory, host }: LocalState,
  { address, record }: { readonly address: RunAddress | null; readonly record: RunRecord | null },
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
