import { mkdir, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { platform } from "node:process";
import { holdInstance, type InstanceHold } from "../anchor/instance/hold-instance-locks.js";
import { openNativeHost } from "../anchor/native-host.js";
import { BadInput, StateUnusable } from "../errors.js";
import { readMachineIdentity } from "../home/machine-identity.js";
import { stateIdOf } from "../home/state-id.js";
import { resolveHome } from "../home/state-directory.js";
import { isInstanceId, newIncarnationId, newInstanceId } from "../model/ids.js";
import { FileRunCopy, localCopyDirectory } from "../store/local-copy/run-copy.js";
import { openStore, type OpenStoreOptions } from "../store/open.js";
import { openStateDirectory } from "../store/open-state-directory.js";
import { retryWhileStoreAway, type StoreWait } from "../store/retry-while-away.js";
import type { Store } from "../store/store.js";
import type { Problem, Supervisor, SupervisorOptions } from "./api.js";
import { KeepaliveLinks } from "./lease/acquire.js";
import { createSupervisor } from "./supervisor.js";

/** Opens a supervisor with its instance directory, the state directory's store and native anchors. */
export async function openSupervisor(options: SupervisorOptions = {}): Promise<Supervisor> {
  return (await openSupervisorAndStore(options)).supervisor;
}

/** Also returns the store, to share its connections. It is closed with the supervisor. */
export async function openSupervisorAndStore(
  options: SupervisorOptions,
  storeOptions: OpenStoreOptions = {},
): Promise<{ readonly supervisor: Supervisor; readonly store: Store }> {
  const { instanceId = newInstanceId() } = options;
  if (!isInstanceId(instanceId))
    throw new BadInput(
      "instanceId",
      `${JSON.stringify(instanceId)} cannot name an instance: up to 12 of a-z, 0-9, _ and -`,
    );
  const { home, storePath, instancesPath } = await openStateDirectory(options.home ?? resolveHome());
  const instanceDir = join(instancesPath, instanceId);
  const ephemeral = options.instanceId === undefined;

  const opened: AsyncDisposable[] = [];
  try {
    const lock = await createAndLockInstance(instanceDir);
    opened.push(lock);
    const machine = await readMachineIdentity(home);
    const stateId = await stateIdOf(home);
    const incarnation = newIncarnationId();
    const host = await openNativeHost({ home, instanceId, instanceDir, incarnation, machine });
    opened.push(host);
    const localCopy = new FileRunCopy(localCopyDirectory(home));
    const keepaliveLinks = new KeepaliveLinks(host, localCopy, instanceId);
    const store = await retryWhileStoreAway(
      () => openStore(storePath, instanceId, storeOptions),
      storeWaitOptions(options, keepaliveLinks),
    );
    opened.push(store);
    // The name is only for display, so a failure does not matter.
    await store.registerHost({ hostId: machine.hostId, name: hostname(), platform }).catch(() => undefined);
    const supervisor = createSupervisor({
      onProblem: emitWarning,
      ...options,
      home,
      instanceId,
      incarnation,
      stateId,
      store,
      ...(store.shared ? { localCopy, keepaliveLinks } : {}),
      host,
      locks: lock,
      onClosed: async (left) => {
        if (ephemeral && left === 0) await removeOwnInstance(instanceDir, lock);
        await lock[Symbol.asyncDispose]();
      },
    });
    return { supervisor, store };
  } catch (error) {
    const [lock, ...others] = opened;
    for (const each of others.reverse()) await each[Symbol.asyncDispose]();
    // Only with the lock is the directory ours.
    if (ephemeral && lock !== undefined) await removeOwnInstance(instanceDir, lock);
    await lock?.[Symbol.asyncDispose]();
    throw error;
  }
}

async function removeOwnInstance(instanceDir: string, lock: AsyncDisposable): Promise<void> {
  // Before the lock is released, so that no other supervisor finds a half-removed instance. Windows removes no file that
  // is open; what a launcher that is ending still uses is removed by the next supervisor.
  if (process.platform === "win32") await lock[Symbol.asyncDispose]();
  const removal = rm(instanceDir, { recursive: true, force: true, maxRetries: 3 });
  await (process.platform === "win32" ? removal.catch(() => undefined) : removal);
}

/** While `open` waits for the store, it keeps its runs alive. */
function storeWaitOptions(
  { onStoreAway, signal }: SupervisorOptions,
  keepaliveLinks: KeepaliveLinks,
): StoreWait | null {
  if (onStoreAway === undefined) return null;
  return {
    onStoreAway: async (error) => {
      await keepaliveLinks.attachAll();
      onStoreAway(error, keepaliveLinks.size);
    },
    ...(signal === undefined ? {} : { signal }),
  };
}

/** The default listener for problems. */
function emitWarning({ message, cause }: Problem): void {
  const detail = cause instanceof Error ? cause.message : "";
  process.emitWarning(message, { type: "HoldfastWarning", code: "HOLDFAST_PROBLEM", detail });
}

/** Repeated, because another supervisor may remove the empty, not yet locked directory as a dead instance. */
async function createAndLockInstance(instanceDir: string): Promise<InstanceHold> {
  for (let tries = 1; ; tries++) {
    await createInstanceDirectory(instanceDir);
    try {
      return await holdInstance(instanceDir);
    } catch (error) {
      const removed = await stat(instanceDir).then(
        () => false,
        () => true,
      );
      if (!removed || tries === LOCK_ATTEMPTS) throw error;
    }
  }
}

/** Dead instances are removed rarely, so three attempts are enough. */
const LOCK_ATTEMPTS = 3;

async function createInstanceDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new StateUnusable(
      path,
      `the instance directory ${path} cannot be created (${String(cause)}); nothing was started`,
      { cause },
    );
  }
}
