import type { NativeObserver } from "../../anchor/native-observer.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome, type StateDirectory } from "../../home/state-directory.js";
import { findStateDirectory } from "../../store/open-state-directory.js";

/** The state directory and its processes, for operator commands that need neither gateway nor store. */
export interface LocalState extends AsyncDisposable {
  readonly directory: StateDirectory;
  readonly host: NativeObserver;
}

/** Null: there is no state directory, so nothing was ever run. */
export async function openLocalState(): Promise<LocalState | null> {
  const directory = await findStateDirectory(resolveHome());
  if (directory === null) return null;
  const host = await openLocalObserver(directory);
  return { directory, host, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

export async function openLocalObserver({ home }: StateDirectory): Promise<NativeObserver> {
  const [{ findAnchorBinary: findAnchor }, { openNativeObserver: observeNatively }] = await Promise.all([
    import("../../anchor/binary/find.js"),
    import("../../anchor/native-observer.js"),
  ]);
  return observeNatively(home, await observeMachineIdentity(home), findAnchor());
}
