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
import { OsBystander, waitForPidsGone } from "./processes.js";

const child = (name: string): string => fileURLToPath(new URL(`children/${name}.mjs`, import.meta.url));

/** How long a tree may take to go when asked. Short: nothing here needs longer. */
export const GRACE_MS = 300;

/** The command line of a fixture: a tiny Node script, the same on every system. */
export function fixtureCommand(name: string, ...args: readonly string[]): readonly string[] {
  return [process.execPath, child(name), ...args];
}

/** A state directory, and somebody who has nothing to do with it. At the end both are as they should be. */
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

/** The numbers of a tree, as its members print them; complete when there are that many. */
export async function readTreePids(run: Run, count: number): Promise<readonly number[]> {
  let text = "";
  for await (const { bytes } of run.follow({ streams: ["stdout"] })) {
    text += Buffer.from(bytes).toString();
    const pids = [...text.matchAll(/here (\d+)\r?\n/g)].map(([, pid]) => Number(pid));
    if (pids.length === count) return pids;
  }
  throw new Error(`it ended with ${JSON.stringify(text)}`);
}

/** All it printed, when it has ended. */
export async function readFinalOutput(run: Run): Promise<{ stdout: string; stderr: string }> {
  const parts: { stdout: Uint8Array[]; stderr: Uint8Array[] } = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of run.follow()) parts[stream].push(bytes);
  return { stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() };
}

/** Every end, whatever it was: on record, final, told once, and nobody left. */
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
