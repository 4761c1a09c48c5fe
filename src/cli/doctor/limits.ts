import { readFile } from "node:fs/promises";
import { ok, warn, type Check } from "./check.js";

/** A gateway holds one connection and up to four files for each run, a launcher one for each anchor. */
const MIN_OPEN_FILES = 1_024;
const MIN_PROCESSES = 512;

export async function checkProcessLimits(): Promise<Check> {
  const text = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const soft = (name: string): number => {
    const found = new RegExp(`^${name}\\s+(\\S+)`, "m").exec(text)?.[1];
    return found === undefined || found === "unlimited" ? Infinity : Number(found);
  };
  const files = soft("Max open files");
  const processes = soft("Max processes");
  const numbers = Number(await readFile("/proc/sys/kernel/pid_max", "utf8").catch(() => "0"));
  const detail = `${formatLimit(files)} open files, ${formatLimit(processes)} processes, numbers up to ${numbers}`;
  if (files < MIN_OPEN_FILES)
    return warn(
      "limits",
      `${detail}: room for about ${Math.floor(files / 5)} runs`,
      `ulimit -n ${MIN_OPEN_FILES * 8}, or LimitNOFILE= in the unit`,
    );
  if (processes < MIN_PROCESSES)
    return warn("limits", detail, `ulimit -u ${MIN_PROCESSES * 8}, or TasksMax= in the unit`);
  return ok("limits", detail);
}

function formatLimit(limit: number): string {
  return limit === Infinity ? "unlimited" : String(limit);
}
