import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildNativeProgram, whyNoCompiler } from "../native-programs.js";
import { waitFor } from "../wait-for.js";

/** The ways to stop an anchor from answering. SIGCONT continues it only after the first. */
export const SILENCING_METHODS = ["SIGSTOP", "debugger"] as const;
export type SilencingMethod = (typeof SILENCING_METHODS)[number];

/** Null: it can be done here. Otherwise the reason to skip. */
export function whyNotSilenceable(how: SilencingMethod): string | null {
  return how === "debugger" ? whyNoCompiler : null;
}

/** Stops the anchor with this pid until it is released. */
export async function silenceAnchor(
  pid: number,
  how: SilencingMethod,
): Promise<AsyncDisposable & { release(): Promise<void> }> {
  const release = how === "SIGSTOP" ? await stopProcess(pid) : await traceProcess(pid);
  return { release, [Symbol.asyncDispose]: release };
}

async function stopProcess(pid: number): Promise<() => Promise<void>> {
  process.kill(pid, "SIGSTOP");
  await waitFor("it is stopped", () => processState(pid) === "T");
  return async () => {
    if (!isDead(pid)) process.kill(pid, "SIGCONT");
  };
}

async function traceProcess(pid: number): Promise<() => Promise<void>> {
  const tracer = spawn(tracerPath(), [String(pid)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(tracer, "exit");
  const isTracing = await Promise.race([
    once(tracer.stdout, "data").then(() => true),
    exited.then(() => false),
  ]);
  if (!isTracing) throw new Error(`process ${pid} cannot be traced here`);
  return async () => {
    tracer.kill("SIGKILL");
    await exited;
  };
}

/** Built once per test file, whose temporary directory ends with it. */
function tracerPath(): string {
  const path = join(tmpdir(), "hold");
  return existsSync(path) ? path : buildNativeProgram("hold", tmpdir());
}

/** The state letter of /proc/<pid>/stat; null: the process is gone. */
export function processState(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .charAt(0);
  } catch {
    return null;
  }
}

/** Neither running nor stopped: gone, or a zombie. */
export function isDead(pid: number): boolean {
  const state = processState(pid);
  return state === null || state === "Z" || state === "X";
}
