import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { text } from "node:stream/consumers";

/** All processes of this PID namespace that have a command line. */
export function listProcesses() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const argv = read(`/proc/${name}/cmdline`).split("\0").slice(0, -1);
      return argv.length === 0 ? [] : [{ pid: Number(name), argv }];
    });
}

/** A field of a process's `status` or `smaps_rollup`, in kB. */
export function memoryKb(pid, file, field) {
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(read(`/proc/${pid}/${file}`))?.[1] ?? 0);
}

/** Exit code and stdout of a command. */
export async function execute([program, ...words], options = {}) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const code = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, signal) => resolve(status ?? `signal ${signal}`));
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}

/** As `execute`, for a command that must succeed. Returns its stdout. */
export async function succeed(words, options) {
  const { code, stdout, stderr } = await execute(words, options);
  if (code !== 0) throw new Error(`${words.join(" ")}: exit code ${code}: ${stderr || stdout}`);
  return stdout;
}

/** Asks until the answer is neither null nor false, for at most a minute. */
export async function until(ask, everyMs = 1) {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const answer = await ask();
    if (answer !== null && answer !== false && answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error("it did not happen within a minute");
    await sleep(everyMs);
  }
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // It has ended.
  }
}
