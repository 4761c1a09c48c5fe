import { readFileSync } from "node:fs";

/**
 * This process's umask, which a command expects to inherit. Undefined where the kernel does not tell:
 * `process.umask()` would have to set it to something else for a moment, and threads of ours create files.
 */
export function currentUmask(): number | undefined {
  try {
    const octal = /^Umask:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return octal === undefined ? undefined : Number.parseInt(octal, 8);
  } catch {
    return undefined;
  }
}
