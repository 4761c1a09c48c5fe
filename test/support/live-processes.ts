import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A live process, as read from /proc. A zombie is not one: it has no command line. */
export interface LiveProcess {
  readonly pid: number;
  readonly startTime: number;
  readonly parentPid: number;
  readonly sessionId: number;
  /** As in /proc: `S` sleeping, `T` stopped, … */
  readonly state: string;
  readonly argv: readonly string[];
}

/** Only Linux has /proc: elsewhere these functions find nothing. */
function listProc(): readonly string[] {
  return process.platform === "linux" ? readdirSync("/proc") : [];
}

/** Processes whose command line contains this text. */
export function findByCommandLine(text: string): LiveProcess[] {
  return listProc().flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const command = readProcFile(name, "cmdline");
    if (command === null || !command.includes(text)) return [];
    const one = readProcess(Number(name));
    return one === null ? [] : [one];
  });
}

/** Processes that name this directory, or a file in it, in their command line or their environment. */
export function findByPath(directory: string): LiveProcess[] {
  return listProc().flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const text = `${readProcFile(name, "cmdline")}\0${readProcFile(name, "environ")}\0`;
    if (!text.includes(`${directory}/`) && !text.includes(`${directory}\0`)) return [];
    const one = readProcess(Number(name));
    return one === null ? [] : [one];
  });
}

/** Processes with the marker of this run in their environment, as far as it can be read. */
export function findByRunMarker(runId: string): LiveProcess[] {
  return listProc().flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    if (readProcFile(name, "environ")?.split("\0").includes(`HOLDFAST_RUN_ID=${runId}`) !== true) return [];
    const one = readProcess(Number(name));
    return one === null ? [] : [one];
  });
}

/** All descendants of this process. */
export function descendantsOf(pid: number): LiveProcess[] {
  const all = listProc().flatMap((name) => {
    const one = /^\d+$/.test(name) ? readProcess(Number(name)) : null;
    return one === null ? [] : [one];
  });
  const below = all.filter(({ parentPid }) => parentPid === pid);
  for (const one of below) below.push(...all.filter(({ parentPid }) => parentPid === one.pid));
  return below;
}

export function isAlive(one: LiveProcess): boolean {
  const now = readProcess(one.pid);
  return now !== null && isSameProcess(one, now);
}

export function readProcess(pid: number): LiveProcess | null {
  const stat = readProcFile(String(pid), "stat");
  const command = readProcFile(String(pid), "cmdline");
  if (stat === null || command === null) return null;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields[0] === "Z" || fields[0] === "X") return null;
  return {
    pid,
    startTime: Number(fields[19]),
    parentPid: Number(fields[1]),
    sessionId: Number(fields[3]),
    state: fields[0] ?? "",
    argv: command.split("\0").slice(0, -1),
  };
}

export function isSameProcess(one: LiveProcess, other: LiveProcess): boolean {
  return one.pid === other.pid && one.startTime === other.startTime;
}

/** Signals a process if it is still the same one. */
export function signalProcess(one: Pick<LiveProcess, "pid" | "startTime">, name: NodeJS.Signals): void {
  const now = readProcess(one.pid);
  if (now === null || now.startTime !== one.startTime) return;
  try {
    process.kill(one.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Sends SIGKILL, and waits until the process is gone. False: there is none. */
export async function endProcess(one: LiveProcess | null): Promise<boolean> {
  if (one === null) return false;
  signalProcess(one, "SIGKILL");
  while (readProcess(one.pid)?.startTime === one.startTime) await sleep(2);
  return true;
}

function readProcFile(pid: string, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return null; // Gone meanwhile.
  }
}
