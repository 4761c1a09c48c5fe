import { mkdir, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { platform } from "node:process";
import { holdInstance, type InstanceHold } from "../anchor/instance/instance-hold.js";
import { openNativeHost } from "../anchor/native-host.js";
import { retryWhileStoreAway, type StoreWait } from "../async/retry.js";
import { BadInput, StateUnusable } from "../errors.js";
import { readMachineIdentity } from "../home/machine-identity.js";
import { stateIdOf } from "../home/persistent-id.js";
import { resolveHome } from "../home/state-directory.js";
import { openStateDirectory } from "../store/open-state-directory.js";
import { isInstanceId, newIncarnationId, newInstanceId } from "../model/ids.js";
import { FileRunCopy, localCopyDirectory } from "../store/local-copy/run-copy.js";
import { openStore } from "../store/open.js";
import type { Store } from "../store/store.js";
import type { Problem, Supervisor, SupervisorOptions } from "./api.js";
import { KeepaliveLinks } from "./lease/keepalive-links.js";
import { createSupervisor } from "./supervisor.js";

/** A supervisor on this machine: its own instance directory, the state directory's store, native anchors. */
export async function openSupervisor(options: SupervisorOptions = {}): Promise<Supervisor> {
  return (await openSupervisorAndStore(options)).supervisor;
}

/** For who needs the store beside it, so that both share its connections. It is closed with the supervisor. */
export async function openSupervisorAndStore(
  options: SupervisorOptions,
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
      () => openStore(storePath, instanceId),
      storeWaitOptions(options, keepaliveLinks),
    );
    opened.push(store);
    // A name is for people: without it the host goes by its id.
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
        // Still under the lock: whoever finds the instance dead must find it whole or not at all.
        if (ephemeral && left === 0) await rm(instanceDir, { recursive: true, force: true, maxRetries: 3 });
        await lock[Symbol.asyncDispose]();
      },
    });
    return { supervisor, store };
  } catch (error) {
    const [lock, ...others] = opened;
    for (const each of others.reverse()) await each[Symbol.asyncDispose]();
    // Only what is ours by the lock.
    if (ephemeral && lock !== undefined) await rm(instanceDir, { recursive: true, force: true });
    await lock?.[Symbol.asyncDispose]();
    throw error;
  }
}

/** An opening that waits for its store holds its runs meanwhile. */
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

/** Nobody asked to be told, but it must be visible. */
function emitWarning({ message, cause }: Problem): void {
  const detail = cause instanceof Error ? cause.message : "";
  process.emitWarning(message, { type: "HoldfastWarning", code: "HOLDFAST_PROBLEM", detail });
}

/** Until it is locked, an empty instance looks dead to others, who may be removing it. */
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

/** Whoever removes dead instances does so once in a while; to lose against one three times takes three of them. */
const LOCK_ATTEMPTS = 3;

async function createInstanceDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new StateUnusable(
      path,
      `the instance directory ${path} cannot be made (${String(cause)}); nothing was started`,
      { cause },
    );
  }
}
