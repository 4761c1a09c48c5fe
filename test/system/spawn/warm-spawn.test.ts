import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ChildProcess, spawn } from "node:child_process";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { SpawnOptions, Supervisor } from "../../../src/index.js";
import { openSupervisor } from "../../../src/index.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

let bystander: ChildProcess;
let home: string;
let supervisor: Supervisor;

beforeAll(() => {
  bystander = spawn("sleep", ["1000"], { stdio: "ignore", detached: true });
});

afterAll(() => {
  expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
  bystander.kill("SIGKILL");
});

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "holdfast-warm-"));
  supervisor = await openSupervisor({ home, instanceId: "in_warm", onProblem: () => undefined });
});

afterEach(async () => {
  await supervisor.close();
  // The launcher leaves when no anchor is left.
  await waitFor(() => !existsSync(join(home, "instances", "in_warm", "launcher.sock")), 10_000);
  expect(warmIds()).toEqual([]);
  await removeStateDirectory(home);
});

/** The directories of warm anchors. */
function warmIds(): string[] {
  const runs = join(home, "instances", "in_warm", "runs");
  const names = existsSync(runs) ? readdirSync(runs) : [];
  return names.filter((name) => name.startsWith(".")).map((name) => name.slice(1));
}

/** The processes of warm anchors and their children, by run id. */
function warmProcesses(): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each)))
    try {
      const words = readFileSync(`/proc/${name}/cmdline`, "latin1").split("\0");
      if (words[1] !== "warm" || !words.some((word) => word.startsWith(home))) continue;
      const id = words[2] ?? "";
      found.set(id, [...(found.get(id) ?? []), Number(name)]);
    } catch {
      // It has ended meanwhile.
    }
  return found;
}

function isGone(pid: number): boolean {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return true;
  }
}

/** Starts two runs, and waits until every warm anchor has a child at the gate. */
async function untilWarm(): Promise<Map<string, number[]>> {
  await runToEnd("true");
  await runToEnd("true");
  await waitFor(() => {
    const all = [...warmProcesses().values()];
    return all.length === defaults.warmAnchors && all.every((pids) => pids.length === 2);
  });
  // The last WELCOME has been read.
  await new Promise((resolve) => setImmediate(resolve));
  return warmProcesses();
}

async function runToEnd(script: string, options: SpawnOptions = {}) {
  const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", script] }, options);
  return run.wait();
}

test("a program that starts one run makes no other anchor", async () => {
  await runToEnd("true");
  await runToEnd("true", { runId: "run_abcdefghjkmn" });
  const { size } = warmProcesses();
  expect(size).toBeLessThanOrEqual(defaults.warmAnchors);
  await supervisor.close();
  supervisor = await openSupervisor({ home, instanceId: "in_warm" });
  await runToEnd("true");
  expect(warmIds()).toEqual([]);
});

test("a run takes a warm anchor, and another one replaces it", async () => {
  const before = await untilWarm();
  const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", "echo $$; exec sleep 1000"] });
  expect([...before.keys()]).toContain(run.runId);
  const record = await supervisor.getRun(run.runId);
  expect(new Set(before.get(run.runId))).toEqual(new Set([record?.anchor?.pid, record?.root?.pid]));
  await waitFor(() => warmProcesses().size === defaults.warmAnchors);
  expect(warmProcesses().has(run.runId)).toBe(false);
  await run.cancel({ graceMs: 0 });
  expect((await run.wait()).emptiness).toBe("proven");
});

test("runs with limits, a terminal or an id of the caller start without one, like any other", async () => {
  const before = await untilWarm();
  const run = await supervisor.spawn({ io: "pty", argv: ["/bin/sh", "-c", "test -t 0"] });
  expect(before.has(run.runId)).toBe(false);
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
});

test("a burst larger than the number of warm anchors starts completely", async () => {
  await untilWarm();
  const ends = await Promise.all(
    Array.from({ length: 12 }, async (_, at) => {
      const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", `exit ${at}`] });
      return run.wait();
    }),
  );
  expect(ends.map(({ exit }) => exit?.code)).toEqual(Array.from({ length: 12 }, (_, at) => at));
});

test("a command that cannot be executed, or not there, is the same error as with a new anchor", async () => {
  const missing = { io: "pipe", argv: ["/nowhere/program"] } as const;
  const elsewhere = { io: "pipe", argv: ["/bin/true"] } as const;
  const errors = async () => [
    await supervisor.spawn(missing).catch((error: unknown) => error),
    await supervisor.spawn(elsewhere, { cwd: "/nowhere" }).catch((error: unknown) => error),
  ];
  const facts = (all: readonly unknown[]) =>
    all.map((error) => {
      const { code, errno, step, message, runId } = error as Record<string, unknown>;
      return { code, errno, step, message: String(message).replaceAll(String(runId), "run") };
    });
  const cold = facts(await errors());
  await untilWarm();
  expect(facts(await errors())).toEqual(cold);
});

test("KILL of all warm anchors delays no run, and leaves no process", async () => {
  const before = await untilWarm();
  for (const pids of before.values()) process.kill(Math.min(...pids), "SIGKILL");
  await waitFor(() => [...before.values()].flat().every(isGone));
  // Longer than it takes to read that the connections have ended.
  await supervisor.reconcile();
  const end = await runToEnd("exit 7");
  expect(end.exit).toMatchObject({ reason: "exit", code: 7 });
  expect(warmIds().filter((id) => before.has(id))).toEqual([]);
});

test("KILL of a warm anchor just before its run is a start that failed: nothing was executed", async () => {
  const before = await untilWarm();
  const file = join(home, "executed");
  for (const pids of before.values()) process.kill(Math.min(...pids), "SIGKILL");
  // This process has not read that the connections have ended.
  const spawned = await supervisor
    .spawn({ io: "pipe", argv: ["/bin/sh", "-c", `touch ${file}`] })
    .catch((error: unknown) => error);
  expect(spawned).toMatchObject({ code: "SPAWN_FAILED" });
  const [record] = (await supervisor.listRuns()).filter(({ runId }) => before.has(runId));
  expect(record?.exit).toMatchObject({ reason: "spawn-error" });
  expect(record?.emptiness).toBe("proven");
  expect(existsSync(file)).toBe(false);
  // It is removed as soon as its record has ended.
  await supervisor.reconcile();
  expect(warmIds()).not.toContain(record?.runId);
});

test("a run whose warm anchor is stopped is started when the anchor is continued", async () => {
  const before = await untilWarm();
  for (const pids of before.values()) process.kill(Math.min(...pids), "SIGSTOP");
  const end = await runToEnd("exit 3");
  expect(end.exit).toMatchObject({ reason: "exit", code: 3 });
}, 60_000);

test("KILL of the launcher: its warm anchors end, and the next run has a launcher", async () => {
  const before = await untilWarm();
  const { pid } = JSON.parse(await readFile(join(home, "instances", "in_warm", "launcher.json"), "utf8")) as {
    pid: number;
  };
  process.kill(pid, "SIGKILL");
  await waitFor(() => [...before.values()].flat().every(isGone), scaled(10_000));
  const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] });
  expect((await supervisor.getRun(run.runId))?.tier).toContain("launcher");
  await run.wait();
});

test("looking for lost runs imports no warm anchor", async () => {
  const before = await untilWarm();
  const known = (await supervisor.listRuns()).length;
  await supervisor.reconcile();
  expect((await supervisor.listRuns()).length).toBe(known);
  expect([...warmProcesses().keys()].toSorted()).toEqual([...before.keys()].toSorted());
});
