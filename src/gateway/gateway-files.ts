import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readOwnFile, readOwnFileSync, writeOwnFile } from "../home/own-file.js";
import { renameFile } from "../home/rename-file.js";
import type { ProcessIdentity } from "../model/process.js";

/** A gateway that owns its runs and does not serve its API yet, because the store is unreachable. */
export interface WaitingGateway {
  readonly instanceId: string;
  readonly pid: number;
  readonly since: number;
  readonly why: string;
  /** Runs that it keeps from being ended by their anchors. */
  readonly held: number;
}

/** Records that this gateway waits for its store. It does not serve its API yet. */
export function writeWaitFile(home: string, waiting: WaitingGateway): void {
  try {
    writeOwnFile(waitFilePath(home), JSON.stringify(waiting));
  } catch {
    // A full disk: the gateway waits without the file.
  }
}

export function removeWaitFile(home: string): void {
  rmSync(waitFilePath(home), { force: true });
}

/** Null: no gateway waits. The process identity is checked, so a killed gateway does not count, even if its pid is reused. */
export async function findWaitingGateway(home: string): Promise<WaitingGateway | null> {
  try {
    const waiting = JSON.parse(readOwnFileSync(waitFilePath(home))) as WaitingGateway;
    if (process.platform === "linux" && existsSync("/proc/self") && !existsSync(`/proc/${waiting.pid}`))
      return null;
    // Loaded only when needed: every command would wait for it.
    const { isInstanceLockFree } = await import("../home/instance-lock.js");
    return (await isInstanceLockFree(join(home, "instances", waiting.instanceId))) ? null : waiting;
  } catch {
    return null;
  }
}

/** The gateway's instance, if a live process holds its lock. */
export async function findLockedInstance(home: string): Promise<string | null> {
  const instanceId = readGatewayId(home);
  if (instanceId === null) return null;
  const { isInstanceLockFree } = await import("../home/instance-lock.js");
  // An unreadable lock is reported by the process that tries to take it.
  const free = await isInstanceLockFree(join(home, "instances", instanceId)).catch(() => true);
  return free ? null : instanceId;
}

/** The instance of this state directory's gateway, whether it runs or not; null: none was ever started. */
export function readGatewayId(home: string): string | null {
  return readTextOrEmpty(join(home, "gateway-id")).trim() || null;
}

function readTextOrEmpty(path: string): string {
  try {
    return readOwnFileSync(path);
  } catch {
    return "";
  }
}

export function describeWaitingGateway({ pid, why, held }: WaitingGateway): string {
  const runs = held === 0 ? "" : ` It keeps ${held === 1 ? "1 run" : `${held} runs`} meanwhile.`;
  return `a gateway has started (pid ${pid}) and waits for its store: ${why}${runs}`;
}

function waitFilePath(home: string): string {
  return join(home, "gateway.waiting");
}

/** `gateway.json` in the instance directory: the gateway process, for when its socket does not answer. */
const processFilePath = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "gateway.json");

/** The configuration that a gateway runs with; its config file may have changed since. May hold secrets. */
export const savedConfigPath = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "config.toml");

/** Only for the holder of the instance's lock. */
export async function writeProcessFile(home: string, instanceId: string): Promise<void> {
  const self = await inspectOne(process.pid);
  if (self?.alive === true)
    await replaceFile(processFilePath(home, instanceId), JSON.stringify(self.identity));
}

export async function saveConfig(home: string, instanceId: string, text: string): Promise<void> {
  await replaceFile(savedConfigPath(home, instanceId), text);
}

/** The recorded gateway process, if it is alive. Null: none was recorded, or it is gone. */
export function readLiveProcess(home: string, instanceId: string): Promise<ProcessIdentity | null> {
  return readLive(processFilePath(home, instanceId));
}

/** The same for the launcher of a gateway: the runs get their cgroups beside it. */
export function readLiveLauncher(home: string, instanceId: string): Promise<ProcessIdentity | null> {
  return readLive(join(home, "instances", instanceId, "launcher.json"));
}

async function readLive(path: string): Promise<ProcessIdentity | null> {
  try {
    const { pid, startTime, uniqueId } = JSON.parse(await readOwnFile(path)) as ProcessIdentity;
    const recorded = { pid, startTime, uniqueId };
    const found = await inspectOne(recorded);
    return found?.alive === true && found.matches ? recorded : null;
  } catch {
    return null;
  }
}

/** The anchor's modules are loaded only here: most commands do not need them. */
async function inspectOne(wanted: number | ProcessIdentity) {
  const { findAnchorBinary } = await import("../anchor/binary.js");
  const { inspectProcesses } = await import("../anchor/inspect/processes.js");
  const [found] = await inspectProcesses(findAnchorBinary(), [wanted], { brief: true });
  return found;
}

async function replaceFile(path: string, text: string): Promise<void> {
  writeOwnFile(`${path}.new`, text);
  await renameFile(`${path}.new`, path);
}
