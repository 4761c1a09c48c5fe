import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../src/api/client.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { readOperatorToken } from "../../src/sessions/tokens.js";
import { isDead, processState } from "../support/supervisor/silent-anchor.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { readProcess } from "../support/live-processes.js";
import { RecoveryFixture, TWO_PROCESSES } from "../support/cli/recovery-fixture.js";
import { waitFor } from "../support/wait-for.js";

interface Named {
  readonly pid: number;
}

interface Identified {
  readonly identity: Named;
}

interface Listed {
  readonly runs: readonly {
    readonly runId: string;
    readonly plan?: string;
    readonly outcome?: string;
    readonly processes: readonly Named[];
    readonly ended?: readonly Named[];
  }[];
}

/** The processes of one run in every view. */
type Views = Readonly<Record<"ps" | "show" | "who" | "doctor" | "cleanup", readonly number[]>>;

const sorted = (pids: readonly number[]): readonly number[] => pids.toSorted((a, b) => a - b);
const identified = (all: readonly Identified[]): readonly number[] =>
  sorted(all.map(({ identity }) => identity.pid));
const named = (all: readonly Named[]): readonly number[] => sorted(all.map(({ pid }) => pid));

async function json<Value>(cli: BatchCli, ...args: readonly string[]): Promise<Value> {
  const { stdout, stderr, code } = await cli.holdfast(...args, "--json");
  if (stdout === "") throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Value;
}

/** `among`: the processes to look up with `who`. */
async function viewsOf(cli: BatchCli, runId: string, among: readonly number[]): Promise<Views> {
  const ps = await json<readonly { runId: string; processes: readonly Identified[] }[]>(cli, "ps");
  const show = await json<{ processes: { processes: readonly Identified[] } }>(cli, "runs", "show", runId);
  const doctor = await json<Listed>(cli, "doctor");
  const cleanup = await json<Listed>(cli, "runs", "cleanup", "--run", runId, "--dry-run");
  const who: number[] = [];
  for (const pid of among) {
    const { code, stdout } = await cli.holdfast("who", String(pid), "--json");
    if (code !== 0) continue;
    const owner = JSON.parse(stdout) as { runId: string; role: string; verified: boolean };
    if (owner.runId === runId && owner.verified && owner.role !== "anchor") who.push(pid);
  }
  const of = ({ runs }: Listed): readonly Named[] => runs.find((run) => run.runId === runId)?.processes ?? [];
  return {
    ps: identified(ps.find((row) => row.runId === runId)?.processes ?? []),
    show: identified(show.processes.processes),
    who: sorted(who),
    doctor: named(of(doctor)),
    cleanup: named(of(cleanup)),
  };
}

function inAllViews(pids: readonly number[]): Views {
  const same = sorted(pids);
  return { ps: same, show: same, who: same, doctor: same, cleanup: same };
}

async function clientOf(fixture: RecoveryFixture): Promise<GatewayClient> {
  const token = (await readOperatorToken(fixture.home)) ?? "";
  return createClient({ socketPath: gatewaySocketPath(fixture.home), token });
}

async function processesByApi(client: GatewayClient, runId: string): Promise<readonly number[]> {
  return named((await client.runProcesses({ params: { runId } })).processes);
}

/** Moves a process into a cgroup two levels below its run's. */
function nest(cgroup: string, pid: number): void {
  const mounted = /^(?:\S+ ){3}(\S+) (\S+) .* - cgroup2 /m.exec(readFileSync("/proc/self/mountinfo", "utf8"));
  const [, root = "", mount = ""] = mounted ?? [];
  const below = join(mount, root === "/" ? cgroup : cgroup.slice(root.length), "outer", "inner");
  mkdirSync(below, { recursive: true });
  writeFileSync(join(below, "cgroup.procs"), String(pid));
}

async function killed(...pids: readonly number[]): Promise<void> {
  for (const pid of pids) process.kill(pid, "SIGKILL");
  for (const pid of pids) await waitFor(`${pid} is dead`, () => isDead(pid));
}

describe("ps, runs show, who, doctor, runs cleanup --dry-run and the API name the same processes", () => {
  test("of a running run, of one whose anchor is stopped, and of one whose gateway was killed", async () => {
    await using fixture = await RecoveryFixture.open();
    await using cli = new BatchCli(fixture.env);
    const gateway = await fixture.gateway();
    const client = await clientOf(fixture);
    const body = { argv: ["sh", "-c", TWO_PROCESSES], background: true };
    const { runId } = (await client.exec({ body })).run;
    await waitFor("all processes have started", async () => (await fixture.membersOf(runId)).length === 3);
    const members = await fixture.membersOf(runId);
    const anchor = (await fixture.record(runId)).anchor?.pid ?? 0;
    for (const signal of ["SIGCONT", "SIGSTOP"] as const) {
      process.kill(anchor, signal);
      const stopped = signal === "SIGSTOP";
      await waitFor(`after ${signal}`, () => (processState(anchor) === "T") === stopped);
      expect(await viewsOf(cli, runId, members)).toEqual(inAllViews(members));
      expect(await processesByApi(client, runId)).toEqual(sorted(members));
    }
    process.kill(anchor, "SIGCONT");
    await gateway.kill();
    expect(await viewsOf(cli, runId, members)).toEqual(inAllViews(members));
    expect(await cli.holdfast("runs", "cancel", runId)).toMatchObject({ code: 0 });
    expect(await viewsOf(cli, runId, members)).toEqual(inAllViews([]));
  });

  test("of a run with a nested cgroup whose launcher, anchor and leader were killed", async (context) => {
    await using fixture = await RecoveryFixture.open();
    await using cli = new BatchCli(fixture.env);
    const [runId = ""] = await fixture.leaveRuns([TWO_PROCESSES]);
    const { anchor, root, boundary } = await fixture.record(runId);
    const cgroup = boundary?.cgroup ?? null;
    const left = (await fixture.membersOf(runId)).filter((pid) => pid !== root?.pid);
    expect(left).toHaveLength(2);
    if (cgroup !== null) nest(cgroup, left[0] ?? 0);
    const launcher = readProcess(anchor?.pid ?? 0)?.parentPid ?? 0;
    await killed(launcher, anchor?.pid ?? 0, root?.pid ?? 0);
    expect(await viewsOf(cli, runId, left)).toEqual(inAllViews(cgroup === null ? [] : left));
    const shown = await cli.holdfast("ps");
    for (const pid of left) expect(shown.stdout).toContain(String(pid));
    if (cgroup === null) context.skip("without a cgroup only the marker is left, which proves nothing");
    expect((await cli.holdfast("runs", "show", runId)).stdout).not.toContain("none is alive");
    const all = ["runs", "cleanup", "--all-orphans"] as const;
    expect((await json<Listed>(cli, ...all, "--dry-run")).runs).toMatchObject([{ plan: "stop" }]);
    const done = await json<Listed>(cli, ...all, "--yes");
    expect(done.runs).toMatchObject([{ outcome: "gone" }]);
    expect(named(done.runs[0]?.ended ?? [])).toEqual(sorted(left));
    expect(await fixture.membersOf(runId)).toEqual([]);
  });
});

describe("runs cleanup --all-orphans", () => {
  const all = ["runs", "cleanup", "--all-orphans"] as const;
  const planned = async (
    cli: BatchCli,
    ...flags: readonly string[]
  ): Promise<Record<string, string | undefined>> => {
    const { runs } = await json<Listed>(cli, ...all, "--dry-run", ...flags);
    return Object.fromEntries(runs.map(({ runId, plan }) => [runId, plan]));
  };

  test("keeps services, which run without a gateway by design, unless --include-services is given", async () => {
    await using fixture = await RecoveryFixture.open();
    await using cli = new BatchCli(fixture.env);
    const [service = "", task = ""] = await fixture.leaveOrphans(
      ["echo up; sleep 7201", { kind: "service" }],
      ["echo up; sleep 7202"],
    );
    expect(await planned(cli)).toEqual({ [service]: "keep-service", [task]: "stop" });
    expect(await planned(cli, "--include-services")).toEqual({ [service]: "stop", [task]: "stop" });
    const { code, stdout } = await cli.holdfast(...all, "--yes");
    expect(stdout).toContain("a service runs without a gateway by design; --include-services ends it");
    expect(stdout).toMatch(/^ {2}ended: \d+ sh, \d+ sleep$/m);
    expect(code).toBe(0);
    expect(await fixture.membersOf(task)).toEqual([]);
    expect(await fixture.membersOf(service)).toHaveLength(2);
    expect(await cli.holdfast(...all, "--include-services", "--yes")).toMatchObject({ code: 0 });
    expect(await fixture.membersOf(service)).toEqual([]);
  });

  test("without the store keeps a service, and a run that may be one", async () => {
    await using fixture = await RecoveryFixture.open();
    await using cli = new BatchCli(fixture.env);
    const gateway = await fixture.gateway();
    const client = await clientOf(fixture);
    const start = async (seconds: number): Promise<string> => {
      const body = { argv: ["sleep", String(seconds)], background: true };
      return (await client.exec({ body })).run.runId;
    };
    const service = await start(7203);
    const task = await start(7204);
    const silent = await start(7205);
    expect(await cli.holdfast("service", "adopt", service)).toMatchObject({ code: 0 });
    const { originInstanceId } = await fixture.record(service);
    const fileOf = (runId: string, name: string): string =>
      join(fixture.home, "instances", originInstanceId, "runs", runId, name);
    await gateway.kill();
    for (const suffix of ["", "-wal", "-shm"]) await rm(fixture.store + suffix, { force: true });

    expect(await planned(cli)).toEqual({ [service]: "keep-service", [task]: "stop", [silent]: "stop" });

    // As an older anchor wrote it: the anchor is queried instead, and does not answer without the key.
    for (const runId of [service, task, silent]) {
      const facts = JSON.parse(await readFile(fileOf(runId, "anchor.json"), "utf8")) as { kind?: string };
      delete facts.kind;
      await writeFile(fileOf(runId, "anchor.json"), JSON.stringify(facts));
    }
    await rename(fileOf(silent, "key"), fileOf(silent, "key.away"));
    const kept = { [service]: "keep-service", [silent]: "keep-unknown" };
    expect(await planned(cli)).toEqual({ ...kept, [task]: "stop" });
    const { code, stdout } = await cli.holdfast(...all, "--yes");
    expect(stdout).toContain(`${silent}: keep it: it may be a service`);
    expect(code).toBe(0);
    expect(await fixture.membersOf(task)).toEqual([]);
    expect(await planned(cli)).toEqual(kept);
    for (const runId of [service, silent]) expect(await fixture.membersOf(runId)).toHaveLength(1);

    await rename(fileOf(silent, "key.away"), fileOf(silent, "key"));
    expect(await cli.holdfast(...all, "--include-services", "--yes")).toMatchObject({ code: 0 });
    for (const runId of [service, silent]) expect(await fixture.membersOf(runId)).toEqual([]);
  });
});
