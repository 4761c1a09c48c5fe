import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readOwnFileSync, writeOwnFile } from "../home/own-file.js";

/** A gateway that owns its runs and does not serve its API yet, because the store is unreachable. */
export interface WaitingGateway {
  readonly instanceId: string;
  readonly pid: number;
  readonly since: number;
  readonly why: string;
  /** Runs that it keeps from being ended by their anchors. */
  readonly held: number;
}

/** A gateway that waits for its store says so in a file, because it does not serve its API yet. */
export function writeWaitFile(home: string, waiting: WaitingGateway): void {
  try {
    writeOwnFile(waitFilePath(home), JSON.stringify(waiting));
  } catch {
    // A full disk is no reason to stop waiting; the log cannot say it either.
  }
}

export function removeWaitFile(home: string): void {
  rmSync(waitFilePath(home), { force: true });
}

/** Null: no gateway waits. The process identity is checked, so a killed gateway does not count, even if its pid is reused. */
export async function findWaitingGateway(home: string): Promise<WaitingGateway | null> {
  try {
    const waiting = JSON.parse(readOwnFileSync(waitFilePath(home))) as WaitingGateway;
    if (existsSync("/proc/self") && !existsSync(`/proc/${waiting.pid}`)) return null;
    // Loaded only where there is something to be asked: every command would wait for it.
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
