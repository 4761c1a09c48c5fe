import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { Sandbox } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { scenarioScript, TokenProcesses } from "../../support/supervisor/token-processes.js";

export const graceMs = 250;

/** A supervisor in a process of its own, and a bystander that must survive the test. */
export class TreeFixture implements AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly processes: TokenProcesses;
  readonly library: LibraryProcess;

  private constructor(sandbox: Sandbox, processes: TokenProcesses, library: LibraryProcess) {
    this.sandbox = sandbox;
    this.processes = processes;
    this.library = library;
  }

  static async open(...where: Parameters<typeof Sandbox.create>): Promise<TreeFixture> {
    const opened: AsyncDisposable[] = [];
    try {
      const sandbox = Sandbox.create(...where);
      opened.unshift(sandbox);
      const processes = await TokenProcesses.withSleeper(sandbox);
      opened.unshift(processes);
      return new TreeFixture(sandbox, processes, await LibraryProcess.open(sandbox));
    } catch (error) {
      for (const each of opened) await each[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts the whole scenario: leader, plain child, one that ignores TERM, one in another session, and a daemon. */
  async playScenario(options: SpawnOptions = {}): Promise<{ readonly record: RunRecord }> {
    const argv = ["sh", scenarioScript, this.processes.token];
    const started = await this.library.spawn({ io: "pipe", argv }, { graceMs, ...options });
    await this.processes.waitForAllRoles();
    return started;
  }

  /** Awaits the end. The run is empty at once, and the library closes without a problem. */
  async ends(checkAtOnce: () => void = () => {}): Promise<RunRecord> {
    const { record } = await this.library.receive("ended");
    expect(this.processes.ofRuns(), "survivors").toEqual([]);
    checkAtOnce();
    expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
    const { events } = await this.library.list();
    expect(events.filter(({ type, runId }) => type === "exit" && runId === record.runId)).toHaveLength(1);
    await this.library.receive("silent");
    await this.library.close();
    return record;
  }

  sleepers(): LiveProcess[] {
    return this.processes.ofRuns().filter(({ argv: [command] }) => command === "sleep");
  }

  launchers(): LiveProcess[] {
    return this.sandbox.holdfastProcesses().filter(({ argv: [, mode] }) => mode === "launch");
  }

  killLaunchers(): void {
    for (const launcher of this.launchers()) signalProcess(launcher, "SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.library[Symbol.asyncDispose]();
      expect(this.processes.missingBystanders(), "the bystander").toEqual([]);
    } finally {
      await this.processes[Symbol.asyncDispose]();
      await this.sandbox[Symbol.asyncDispose]();
    }
  }
}

/** The path of a program in `children/`. */
export function child(name: string): string {
  return fileURLToPath(new URL(`children/${name}`, import.meta.url));
}
