import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { RunRecord } from "../../../../src/model/run.js";
import type { Problem, Run, SpawnOptions, Supervisor } from "../../../../src/supervisor/api.js";
import { removeStateDirectory } from "../../../support/temporary-directory.js";
import { waitFor } from "../../../support/wait-for.js";
import type { Io, Platform } from "./cell.js";

/** Short: no tree here needs longer to end. */
const GRACE_MS = 300;

const child = (name: string): string => resolve(`test/system/os-matrix/children/${name}.mjs`);

/** A zombie has ended: without a subreaper, init reaps it at some time. */
function isPidAlive(pid: number): boolean {
  try {
    if (process.platform === "linux")
      return !/\) [ZX] [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
    // Signal 0 only checks, on every system of Node.
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

export async function waitForPidsGone(pids: readonly number[], withinMs = 15_000): Promise<void> {
  await waitFor(`${pids.join(", ")} are gone`, () => !pids.some(isPidAlive), withinMs);
}

/** The command line of a child: a small Node script, the same on every system. */
export function nodeCommand(name: string, ...args: readonly string[]): readonly string[] {
  return [process.execPath, child(name), ...args];
}

/** Fields that are not in `expected` may have any value. */
export function assertFields(
  actual: object | null | undefined,
  expected: Readonly<Record<string, unknown>>,
): void {
  const fields = Object.entries(actual ?? {}).filter(([name]) => name in expected);
  assert.deepEqual(Object.fromEntries(fields), expected);
}

/** A state directory, and a bystander with the command line of a tree, which must be alive at the end. */
export class OsFixture implements AsyncDisposable {
  readonly platform: Platform;
  readonly io: Io;
  readonly home: string;
  readonly problems: Problem[] = [];
  readonly #open: AsyncDisposable[] = [];
  #bystander: ChildProcess | null = null;
  /** The bystander and its child. */
  #bystanderPids: readonly number[] = [];

  private constructor(platform: Platform, io: Io, home: string) {
    this.platform = platform;
    this.io = io;
    this.home = home;
  }

  static async open(platform: Platform, io: Io): Promise<OsFixture> {
    const fixture = new OsFixture(platform, io, await mkdtemp(join(tmpdir(), "hf-")));
    await mkdir(fixture.#pidDirectory);
    const [command = "", ...args] = fixture.tree(1);
    const bystander = spawn(command, args, { stdio: "ignore" });
    fixture.#bystander = bystander;
    await once(bystander, "spawn");
    await waitFor("the bystander runs", async () => (await fixture.#pids()).length === 2);
    fixture.#bystanderPids = await fixture.#pids();
    return fixture;
  }

  get #pidDirectory(): string {
    return join(this.home, "pids");
  }

  get bystanderPids(): readonly number[] {
    return this.#bystanderPids;
  }

  async #pids(): Promise<readonly number[]> {
    return (await readdir(this.#pidDirectory)).map(Number);
  }

  /** A command line of a process with that many generations below it. The bystander has the one with 1. */
  tree(below: number): readonly string[] {
    return nodeCommand("tree", this.#pidDirectory, String(below));
  }

  /** The pids of a tree, once it has that many processes. */
  treePids(count: number): Promise<readonly number[]> {
    return waitFor(`a tree of ${count} processes runs`, async () => {
      const pids = (await this.#pids()).filter((pid) => !this.#bystanderPids.includes(pid));
      return pids.length === count && pids;
    });
  }

  async supervisor(instanceId?: string): Promise<Supervisor> {
    const supervisor = await this.platform.openSupervisor({
      home: this.home,
      ...(instanceId === undefined ? {} : { instanceId }),
      onProblem: (problem) => this.problems.push(problem),
    });
    this.#open.push(supervisor);
    return supervisor;
  }

  spawn(supervisor: Supervisor, argv: readonly string[], options: SpawnOptions = {}): Promise<Run> {
    const command = this.io === "pty" ? { io: this.io, argv } : { io: this.io, argv };
    return supervisor.spawn(command, { graceMs: GRACE_MS, ...options });
  }

  /** A supervisor in a process of its own, with one run of that command line, to be killed. */
  async victim(instanceId: string, argv: readonly string[]): Promise<SupervisorVictim> {
    const victim = await SupervisorVictim.start(this.home, instanceId, this.io, argv);
    this.#open.push(victim);
    return victim;
  }

  /** Every end: on record, final, with one event, by the expected anchor, and no process left. */
  async checkEnd(
    supervisor: Supervisor,
    record: RunRecord,
    exit: Readonly<Record<string, unknown>>,
    pids: readonly number[],
  ): Promise<void> {
    await waitForPidsGone(pids, 0);
    assertFields(record.exit, exit);
    assertFields(record, { state: "exited", emptiness: "proven" });
    assert.match(record.tier ?? "", this.platform.tier);
    assert.notEqual(record.endedAt, null);
    assert.deepEqual(await supervisor.getRun(record.runId), record);
    const ends = (await supervisor.listEvents({ runId: record.runId })).filter(({ type }) => type === "exit");
    assert.equal(ends.length, 1);
    assertFields(ends[0]?.data, { reason: record.exit?.reason, emptiness: "proven" });
    assert.deepEqual(this.problems, []);
  }

  /** The tree of the bystander must be alive. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#open.toReversed()) await one[Symbol.asyncDispose]();
    const survived = this.#bystanderPids.map(isPidAlive);
    const exited =
      this.#bystander === null || hasExited(this.#bystander) ? null : once(this.#bystander, "exit");
    for (const pid of this.#bystanderPids.filter(isPidAlive)) process.kill(pid, "SIGKILL");
    await exited;
    await waitForPidsGone(this.#bystanderPids);
    // A closed store has its files open until its statements are collected as garbage. The prefix is removed as a whole.
    if (process.platform !== "win32") await removeStateDirectory(this.home);
    assert.deepEqual(survived, [true, true], "a bystander did not survive");
  }
}

function hasExited(process: ChildProcess): boolean {
  return process.exitCode !== null || process.signalCode !== null;
}

class SupervisorVictim implements AsyncDisposable {
  readonly runId: string;
  readonly #child: ChildProcess;

  private constructor(runId: string, process: ChildProcess) {
    this.runId = runId;
    this.#child = process;
  }

  static async start(
    home: string,
    instanceId: string,
    io: Io,
    argv: readonly string[],
  ): Promise<SupervisorVictim> {
    const args = [child("supervise"), resolve("dist/index.js"), home, instanceId, io, ...argv];
    const started = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(createInterface({ input: started.stdout }), "line")) as [string];
    return new SupervisorVictim(line, started);
  }

  async kill(): Promise<void> {
    if (hasExited(this.#child)) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** The whole output, after the end. A terminal has one stream. */
export async function readOutput(run: Run): Promise<{ stdout: string; stderr: string }> {
  const parts: { stdout: Uint8Array[]; stderr: Uint8Array[] } = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of run.follow()) parts[stream].push(bytes);
  return { stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() };
}
