import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { buildNativePrograms, whyNoCompiler } from "../native-programs.js";
import { waitFor } from "../wait-for.js";

const programs = buildNativePrograms("hold");

/** Ways to keep an anchor from answering. SIGCONT ends only the first. */
export const SILENCING_METHODS = ["SIGSTOP", "debugger"] as const;
export type SilencingMethod = (typeof SILENCING_METHODS)[number];

/** Null: it can be done here. Otherwise the reason to skip. */
export function whyNotSilenceable(how: SilencingMethod): string | null {
  return how === "debugger" ? whyNoCompiler : null;
}

/** Stops an anchor until the returned function is called or the test ends. */
export async function silenceAnchor(pid: number, how: SilencingMethod): Promise<() => Promise<void>> {
  if (how === "SIGSTOP") {
    process.kill(pid, "SIGSTOP");
    await waitFor("it is stopped", () => processState(pid) === "T");
    return async () => {
      if (!isDead(pid)) process.kill(pid, "SIGCONT");
    };
  }
  const tracer = spawn(join(programs, "hold"), [String(pid)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(tracer, "exit");
  const release = async (): Promise<void> => {
    tracer.kill("SIGKILL");
    await exited;
  };
  onTestFinished(release);
  const said = await Promise.race([once(tracer.stdout, "data").then(() => true), exited.then(() => false)]);
  if (!said) throw new Error(`process ${pid} cannot be traced here`);
  return release;
}

/** The state in /proc; null: gone. */
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
