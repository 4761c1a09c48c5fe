import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { Problem, Run, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";
import { waitFor } from "../../support/wait-for.js";

/** The only function here that depends on the operating system. */
export function isPidAlive(pid: number): boolean {
  try {
    // Signal 0 only checks, on every system of Node.
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

export async function waitForPidsGone(pids: readonly number[], withinMs = 10_000): Promise<void> {
  await waitFor(`${pids.join(", ")} are gone`, () => !pids.some(isPidAlive), withinMs);
}

/** A process with the command line of a run, which must survive. */
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

const child = (name: string): string => fileURLToPath(new URL(`children/${name}.mjs`, import.meta.url));

/** Short: no tree here needs longer to end. */
export const GRACE_MS = 300;

/** The command line of a fixture: a small Node script, the same on every system. */
export function fixtureCommand(name: string, ...args: readonly string[]): readonly string[] {
  return [process.execPath, child(name), ...args];
}

/** A state directory and a bystander, which must be alive at the end. */
export class OsFixture implements AsyncDisposable {
  readonly home: string;
  readonly problems: Problem[] = [];
  readonly #open: AsyncDisposable[] = [];

  private constructor(home: string) {
    this.home = home;
  }

  static async open(): Promise<OsFixture> {
    const context = new OsFixture(await mkdtemp(join(tmpdir(), "hf-")));
    const [command = "", ...args] = fixtureCommand("tree");
    context.#open.push(await OsBystander.start(command, ...args));
    return context;
  }

  async supervisor(instanceId?: string): Promise<Supervisor> {
    const supervisor = await openSupervisor({
      home: this.home,
      ...(instanceId === undefined ? {} : { instanceId }),
      onProblem: (problem) => this.problems.push(problem),
    });
    this.#open.push(supervisor);
    return supervisor;
  }

  /** A supervisor in a process of its own, with one run of that command line, to be killed. */
  async victim(instanceId: string, argv: readonly string[]): Promise<SupervisorVictim> {
    const victim = await SupervisorVictim.start(this.home, instanceId, argv);
    this.#open.push(victim);
    return victim;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#open.toReversed()) await one[Symbol.asyncDispose]();
    await removeStateDirectory(this.home);
  }
}

export class SupervisorVictim implements AsyncDisposable {
  readonly runId: string;
  readonly #child: ChildProcess;

  private constructor(runId: string, process: ChildProcess) {
    this.runId = runId;
    this.#child = process;
  }

  static async start(home: string, instanceId: string, argv: readonly string[]): Promise<SupervisorVictim> {
    const started = spawn(
      process.execPath,
      [child("supervise"), resolve("dist/index.js"), home, instanceId, ...argv],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const [line] = (await once(createInterface({ input: started.stdout }), "line")) as [string];
    return new SupervisorVictim(line, started);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** The pids that the members of a tree print, once there are that many. */
export async function readTreePids(run: Run, count: number): Promise<readonly number[]> {
  let text = "";
  for await (const { bytes } of run.follow({ streams: ["stdout"] })) {
    text += Buffer.from(bytes).toString();
    const pids = [...text.matchAll(/here (\d+)\r?\n/g)].map(([, pid]) => Number(pid));
    if (pids.length === count) return pids;
  }
  throw new Error(`it ended with ${JSON.stringify(text)}`);
}

/** The whole output, after the end. */
export async function readFinalOutput(run: Run): Promise<{ stdout: string; stderr: string }> {
  const parts: { stdout: Uint8Array[]; stderr: Uint8Array[] } = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of run.follow()) parts[stream].push(bytes);
  return { stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() };
}

/** Every end: on record, final, with one event, and no process left. */
export async function expectEnd(
  supervisor: Supervisor,
  record: RunRecord,
  pids: readonly number[],
): Promise<void> {
  await waitForPidsGone(pids, 0);
  expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
  expect(record.endedAt).not.toBeNull();
  expect(await supervisor.getRun(record.runId)).toEqual(record);
  const events = await supervisor.listEvents({ runId: record.runId });
  const ends = events.filter(({ type }) => type === "exit");
  expect(ends).toHaveLength(1);
  expect(ends[0]?.data).toMatchObject({ reason: record.exit?.reason, emptiness: "proven" });
}
