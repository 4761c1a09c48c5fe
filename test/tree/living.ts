import { readdirSync, readFileSync } from "node:fs";

export { until } from "../until.js";

/** A live process, as /proc tells it. A zombie is not one: it has no command line any more. */
export interface Living {
  readonly pid: number;
  readonly startTime: number;
  readonly parentPid: number;
  readonly sessionId: number;
  /** As in /proc: `S` sleeping, `T` stopped, … */
  readonly state: string;
  readonly argv: readonly string[];
}

/** Everybody whose command line holds this text. */
export function living(text: string): Living[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const command = read(name, "cmdline");
    if (command === null || !command.includes(text)) return [];
    const one = look(Number(name));
    return one === null ? [] : [one];
  });
}

/** Everybody who inherited this run's marker, whatever he calls himself. Shows only processes one may look into. */
export function marked(runId: string): Living[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    if (read(name, "environ")?.split("\0").includes(`HOLDFAST_RUN_ID=${runId}`) !== true) return [];
    const one = look(Number(name));
    return one === null ? [] : [one];
  });
}

/** Everybody below this process, as parents are told now. */
export function descendants(pid: number): Living[] {
  const everybody = readdirSync("/proc").flatMap((name) => {
    const one = /^\d+$/.test(name) ? look(Number(name)) : null;
    return one === null ? [] : [one];
  });
  const below = everybody.filter(({ parentPid }) => parentPid === pid);
  for (const one of below) below.push(...everybody.filter(({ parentPid }) => parentPid === one.pid));
  return below;
}

export function isAlive(one: Living): boolean {
  const now = look(one.pid);
  return now !== null && isSame(one, now);
}

export function look(pid: number): Living | null {
  const stat = read(String(pid), "stat");
  const command = read(String(pid), "cmdline");
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

export function isSame(one: Living, other: Living): boolean {
  return one.pid === other.pid && one.startTime === other.startTime;
}

/** Signals somebody a test started, if he still is who he was. */
export function signal(whom: Pick<Living, "pid" | "startTime">, name: NodeJS.Signals): void {
  const now = look(whom.pid);
  if (now === null || now.startTime !== whom.startTime) return;
  try {
    process.kill(whom.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function read(pid: string, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return null; // Gone meanwhile.
  }
}
