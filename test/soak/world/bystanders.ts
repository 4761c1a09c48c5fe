import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { once } from "node:events";

/** Processes beside those of Holdfast that look like them. Nothing may signal them. */
export class Bystanders implements AsyncDisposable {
  readonly #program: string;
  readonly #all = new Map<string, ChildProcess>();

  constructor(program: string) {
    this.#program = program;
  }

  plant(
    name: string,
    { cwd = "/", env = {} }: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
  ): void {
    const before = this.#all.get(name);
    before?.kill("SIGKILL");
    const child = spawn(this.#program, {
      stdio: "ignore",
      detached: true,
      cwd,
      env: { ...process.env, ...env },
    });
    this.#all.set(name, child);
  }

  /** Those that were signalled, with the signal's trace. They are replaced. */
  findSignalled(): string[] {
    const found: string[] = [];
    for (const [name, child] of this.#all) {
      const trace = traceOf(child);
      if (trace === null) continue;
      found.push(`${name}: ${trace}`);
      this.plant(name);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#all.values()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  }
}

function traceOf(child: ChildProcess): string | null {
  if (child.exitCode !== null || child.signalCode !== null)
    return `ended with ${child.exitCode ?? child.signalCode}`;
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  const field = (name: string): string => new RegExp(`^${name}:\\s*(\\S+)`, "m").exec(status)?.[1] ?? "";
  if (field("State") === "T") return "it was stopped";
  const pending = BigInt(`0x${field("SigPnd")}`) | BigInt(`0x${field("ShdPnd")}`);
  return pending === 0n ? null : `signals are pending: 0x${pending.toString(16)}`;
}
