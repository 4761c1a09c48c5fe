import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { waitFor } from "../../support/wait-for.js";

/**
 * All that these tests ask of the system itself. Another system may need another answer to `isAlive`; nothing else here
 * knows what a process is.
 */
export function isPidAlive(pid: number): boolean {
  try {
    // Asks and sends nothing, on every system Node runs on.
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

export async function waitForPidsGone(pids: readonly number[], withinMs = 10_000): Promise<void> {
  await waitFor(`${pids.join(", ")} are gone`, () => !pids.some(isPidAlive), withinMs);
}

/** A process of our own, with the command line of a run's, that must not notice anything. */
export class OsBystander implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(command: string, ...args: readonly string[]): Promise<OsBystander> {
    const child = spawn(command, args, { stdio: "ignore" });
    await once(child, "spawn");
    return new OsBystander(child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const survived = this.#child.exitCode === null && this.#child.signalCode === null;
    if (survived) {
      const exited = once(this.#child, "exit");
      this.#child.kill();
      await exited;
    } else throw new Error("the bystander did not survive");
  }
}
