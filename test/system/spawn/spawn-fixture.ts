import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { newInstanceId } from "../../../src/model/ids.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { Problem, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { waitFor } from "../../support/wait-for.js";

const VICTIM_SCRIPT = fileURLToPath(new URL("children/victim.mjs", import.meta.url));
/** A launcher and its anchors end within milliseconds on a quiet machine. */
const SLACK_MS = 5_000;
/** How long a new launcher waits for HOLD. */
const FIRST_HOLD_MS = 10_000;
/** Interval of the process listings. */
const POLL_MS = 20;

interface SeenProcess {
  readonly pid: string;
  readonly text: string;
  /** Null: a launcher. */
  readonly runId: string | null;
  readonly home: string;
}

/** Creates a file named after its run, then sleeps for an hour. */
export const MARK_AND_SLEEP = ': > "$MARKS/$HOLDFAST_RUN_ID"; exec sleep 3041';

export interface SpawnHome {
  readonly path: string;
  /** Unique, because cgroups are named after it. */
  readonly instanceId: string;
  readonly marks: string;
}

/**
 * State directories whose supervisors are killed, and all processes of their runs that were seen meanwhile. A bystander
 * with the same command line must survive.
 */
export class SpawnFixture {
  readonly #base: string;
  /** Processes that ran before the test. */
  readonly #others: ReadonlySet<string>;
  /** Every run of which a process was seen, with its home. */
  readonly seen = new Map<string, string>();
  #watching = true;
  readonly #watch: Promise<void>;

  static async open(): Promise<SpawnFixture> {
    const base = await mkdtemp(join(tmpdir(), "hf-scene-"));
    const strangerMarks = await mkdtemp(join(tmpdir(), "stranger-"));
    const bystander = spawn("/bin/sh", ["-c", MARK_AND_SLEEP], {
      stdio: "ignore",
      env: { PATH: "/usr/bin:/bin", MARKS: strangerMarks, HOLDFAST_RUN_ID: "mark" },
    });
    const fixture = new SpawnFixture(base, await readdir("/proc"));
    onTestFinished(async () => {
      fixture.#watching = false;
      await fixture.#watch;
      const survived = bystander.exitCode === null && bystander.signalCode === null;
      bystander.kill("SIGKILL");
      await rm(base, { recursive: true, force: true, maxRetries: 5 });
      await rm(strangerMarks, { recursive: true, force: true });
      if (!survived) throw new Error("the bystander did not survive");
    });
    return fixture;
  }

  private constructor(base: string, others: readonly string[]) {
    this.#base = base;
    this.#others = new Set(others);
    this.#watch = this.#pollProcesses();
  }

  async home(name: string): Promise<SpawnHome> {
    const path = join(this.#base, name);
    const marks = join(path, "marks");
    await mkdir(marks, { recursive: true, mode: 0o700 });
    return { path, marks, instanceId: newInstanceId() };
  }

  /** Resolves when the victim is dead. */
  async kill(home: SpawnHome, step: string, spawns: number, ownerLossMs: number): Promise<void> {
    const args = [
      VICTIM_SCRIPT,
      home.path,
      home.instanceId,
      step,
      String(spawns),
      String(ownerLossMs),
      MARK_AND_SLEEP,
    ];
    const env = { ...process.env, MARKS: home.marks };
    const victim = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"], env });
    const [code, signal] = (await once(victim, "exit")) as [number | null, NodeJS.Signals | null];
    expect({ code, signal }, `the victim of ${step}`).toEqual({ code: null, signal: "SIGKILL" });
  }

  /** Milliseconds until no process of a run is left. */
  async runsGone(withinMs: number): Promise<number> {
    const began = performance.now();
    await this.#gone(withinMs, ({ runId }) => runId !== null);
    return performance.now() - began;
  }

  /** No launcher is left either. A new launcher may wait for HOLD for a while. */
  async expectNoProcesses(): Promise<void> {
    await this.#gone(FIRST_HOLD_MS, () => true);
  }

  async #gone(withinMs: number, counts: (process: SeenProcess) => boolean): Promise<void> {
    let left: readonly string[] = [];
    const areGone = async (): Promise<boolean> => {
      left = (await this.#processes()).filter(counts).map(({ pid, text }) => `${pid} ${text}`);
      return left.length === 0;
    };
    await waitFor(areGone, withinMs + SLACK_MS).catch(() => expect(left, "still alive").toEqual([]));
  }

  /** Recovers a home and checks all of its records and files, whichever process was killed. */
  async recoverAndCheck(home: SpawnHome): Promise<readonly RunRecord[]> {
    const first = await recoverTwice(home);
    // A second recovery, by another supervisor, changes nothing.
    expect(await recoverTwice(home)).toEqual(first);
    const { runs, events } = first;
    for (const run of runs) {
      expect(run.state, run.runId).toBe("exited");
      // Only a lost run may be unproven.
      if (run.exit?.reason !== "lost") expect(run.emptiness).toBe("proven");
      const ends = events.filter(({ runId, type }) => runId === run.runId && type === "exit");
      expect(ends, "one end, told once").toHaveLength(1);
    }
    const recorded = new Map(runs.map((run) => [run.runId, run]));
    for (const [runId, path] of this.seen)
      if (path === home.path)
        expect(recorded.has(runId), `a process of ${runId} without a record`).toBe(true);
    for (const mark of await readdir(home.marks))
      expect(recorded.get(mark)?.root ?? null, `${mark} ran before its root was on record`).not.toBeNull();
    return runs.filter(({ command }) => command.includes("MARKS"));
  }

  hasRun(home: SpawnHome, { runId }: { readonly runId: string }): boolean {
    return existsSync(join(home.marks, runId));
  }

  async #pollProcesses(): Promise<void> {
    while (this.#watching) {
      for (const { runId, home } of await this.#processes()) if (runId !== null) this.seen.set(runId, home);
      await setTimeout(POLL_MS);
    }
  }

  async #processes(): Promise<readonly SeenProcess[]> {
    const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && !this.#others.has(name));
    const found = await Promise.all(pids.map((pid) => this.#describe(pid)));
    return found.filter((each) => each !== null);
  }

  /** Finds anchors and launchers by their arguments, commands by their environment. */
  async #describe(pid: string): Promise<SeenProcess | null> {
    const read = (name: string): Promise<string> =>
      readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "");
    const cmdline = await read("cmdline");
    if (cmdline.includes(VICTIM_SCRIPT)) return null;
    const environ = await read("environ");
    const text = `${cmdline}\0${environ}`;
    const at = text.indexOf(this.#base);
    if (at < 0) return null;
    const home = join(this.#base, text.slice(at + this.#base.length + 1).split(/[/\0]/)[0] ?? "");
    const runId =
      /(?:^|\0)HOLDFAST_RUN_ID=([^\0]+)/.exec(environ)?.[1] ??
      /\0run\0(run_[^\0]+)/.exec(cmdline)?.[1] ??
      null;
    return { pid, text: cmdline.replaceAll("\0", " "), runId, home };
  }
}

interface RecoveredState {
  readonly runs: readonly RunRecord[];
  readonly events: Awaited<ReturnType<Supervisor["listEvents"]>>;
}

/** The next supervisor of the home. A reported problem fails the test. */
export async function nextSupervisor(home: SpawnHome): Promise<Supervisor> {
  const problems: Problem[] = [];
  const supervisor = await openSupervisor({
    home: home.path,
    instanceId: home.instanceId,
    onProblem: (problem) => problems.push(problem),
  });
  onTestFinished(async () => {
    await supervisor.close();
    expect(problems).toEqual([]);
  });
  return supervisor;
}

async function recoverTwice(home: SpawnHome): Promise<RecoveredState> {
  const supervisor = await nextSupervisor(home);
  expect(await supervisor.recover()).toEqual([]);
  const first = await readState(supervisor);
  expect(await supervisor.recover()).toEqual([]);
  expect(await readState(supervisor)).toEqual(first);
  await supervisor.close();
  return first;
}

async function readState(supervisor: Supervisor): Promise<RecoveredState> {
  return { runs: await supervisor.listRuns(), events: await supervisor.listEvents() };
}

/** Calls `work` for all items, a few at a time. */
export async function forEachConcurrently<T>(
  limit: number,
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const waiting = items.values();
  const worker = async (): Promise<void> => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/**
 * The steps of a spawn. For a run whose supervisor was killed right after the step: whether it has a record of its own
 * (otherwise its directory is imported, if there is one), whether the command may have run, and the reason of its end by
 * its policy.
 */
export const SPAWN_STEPS = [
  {
    name: "inserted",
    after: "the record is inserted, because no anchor could be started",
    recorded: true,
    runs: false,
    reason: "spawn-error",
  },
  { name: "asked", after: "START, before WELCOME", recorded: false, runs: false, reason: "spawn-error" },
  {
    name: "welcomed",
    after: "WELCOME, before the commit",
    recorded: false,
    runs: false,
    reason: "spawn-error",
  },
  { name: "committed", after: "the commit, before GO", recorded: true, runs: false, reason: "spawn-error" },
  { name: "gone", after: "GO, before STARTED", recorded: true, runs: true, reason: "owner-lost" },
  {
    name: "heard",
    after: "STARTED, before anything is made of it",
    recorded: true,
    runs: true,
    reason: "owner-lost",
  },
  { name: "running", after: "spawn() has returned", recorded: true, runs: true, reason: "owner-lost" },
] as const;

export type SpawnStep = (typeof SPAWN_STEPS)[number]["name"];
