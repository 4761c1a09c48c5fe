import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../src/anchor/binary.js";
import type {
  AnchorEvent,
  AnchorExit,
  AnchorLink,
  RunAddress,
  StreamName,
} from "../../src/anchor/host-interface.js";
import { type NativeHost, openNativeHost } from "../../src/anchor/native-host.js";
import { PROTOCOL } from "../../src/anchor/protocol/messages.js";
import { startSpec } from "../support/anchor/start-spec.js";
import { removeStateDirectory } from "../support/temporary-directory.js";
import { waitFor } from "../support/wait-for.js";

let home: string;
let instanceDir: string;
let host: NativeHost;

const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };

/** A bystander of the same user and with a common name: it must survive everything. */
let bystander: ChildProcess;

beforeAll(() => {
  bystander = spawn("sleep", ["1000"], { stdio: "ignore", detached: true });
});

afterAll(() => {
  expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
  bystander.kill("SIGKILL");
});

function at(runId: string): RunAddress {
  return { instanceId: "in_test", runId };
}

async function open(incarnation: string): Promise<NativeHost> {
  return openNativeHost({ home, instanceId: "in_test", incarnation, instanceDir, machine });
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "holdfast-host-"));
  instanceDir = join(home, "instances", "in_test");
  await mkdir(instanceDir, { recursive: true });
  host = await open("first");
});

afterEach(async () => {
  await host[Symbol.asyncDispose]();
  // No process outlives a test: runs end by owner loss, then the launcher exits.
  await waitFor(() => !existsSync(join(instanceDir, "launcher.sock")), 10_000);
  await removeStateDirectory(home);
});

interface Watched {
  readonly link: AnchorLink;
  readonly events: AnchorEvent[];
  readonly ended: Promise<AnchorExit | null>;
}

function watch(link: AnchorLink): Watched {
  const events: AnchorEvent[] = [];
  let exit: AnchorExit | null = null;
  const ended = new Promise<AnchorExit | null>((resolve) => {
    link.listen((event) => {
      events.push(event);
      if (event.type === "exited") ({ exit } = event);
      if (event.type === "closed") resolve(exit);
    });
  });
  return { link, events, ended };
}

async function run(
  runId: string,
  argv: readonly string[],
  change: Parameters<typeof startSpec>[2] = {},
): Promise<Watched> {
  const watched = watch(await host.start(startSpec(runId, argv, change)));
  watched.link.go();
  return watched;
}

async function runToEnd(runId: string, argv: readonly string[]): Promise<AnchorExit | null> {
  return (await run(runId, argv)).ended;
}

async function text(runId: string, stream: StreamName = "stdout"): Promise<string> {
  let all = "";
  for (let offset = 0; ;) {
    const { bytes } = await host.readOutput(at(runId), stream, offset, 1 << 20);
    if (bytes.length === 0) return all;
    all += Buffer.from(bytes).toString();
    offset += bytes.length;
  }
}

const stop = { reason: "manual-cancel", actor: "test", requestId: "req", graceMs: null };

describe.skipIf(!existsSync(findAnchorBinary()))("the native host", () => {
  test("starts no launcher before the first run", async () => {
    expect(existsSync(join(instanceDir, "launcher.sock"))).toBe(false);
    expect(await host.listRunIds("in_test")).toEqual([]);
    await runToEnd("run_a", ["/bin/true"]);
    expect(existsSync(join(instanceDir, "launcher.sock"))).toBe(true);
  });

  test("runs a command behind the gate and reports its whole life cycle", async () => {
    const link = await host.start(startSpec("run_a", ["sh", "-c", "echo hi; echo oops >&2; exit 3"]));
    expect(link.welcome).toMatchObject({
      protocol: PROTOCOL,
      phase: "gated",
      highestEpoch: 1,
      leader: null,
      firstStop: null,
    });
    expect(link.welcome.boundary.tier).toMatch(/^(cgroup|subreaper)\+launcher\+(unique|handle|number)$/);
    const { events, ended } = watch(link);
    link.go();
    const exit = await ended;
    expect(exit).toMatchObject({
      runId: "run_a",
      executed: true,
      reason: "exit",
      leader: { code: 3, signal: null },
      residue: [],
      emptiness: "proven",
      stdout: { start: 0, end: 3 },
      stderr: { start: 0, end: 5 },
    });
    expect(events[0]).toEqual({ type: "started" });
    expect(events).toContainEqual({ type: "leader", status: { code: 3, signal: null } });
    expect(await text("run_a")).toBe("hi\n");
    expect(await text("run_a", "stderr")).toBe("oops\n");
    const lastOutputAt = expect.any(Number) as number;
    expect((await host.readRunFiles(at("run_a"))).exit).toEqual({ ...exit, lastOutputAt });
  });

  test("many runs at once all start, through one launcher", async () => {
    const ids = Array.from({ length: 300 }, (_, index) => `run_${index}`);
    const exits = await Promise.all(ids.map((id) => runToEnd(id, ["echo", id])));
    expect(exits.every((exit) => exit?.leader?.code === 0)).toBe(true);
    expect(await text("run_299")).toBe("run_299\n");
    expect(new Set(await host.listRunIds("in_test"))).toEqual(new Set(ids));
  });

  test("reap does not touch processes that it cannot verify", async () => {
    const { link, ended } = await run("run_a", ["sleep", "1000"]);
    const { root } = link.welcome;
    const result = await host.reap({
      root: { ...root, startTime: root.startTime + 5, uniqueId: null },
      cgroup: null,
      leaseId: null,
      graceMs: 0,
    });
    expect(result).toMatchObject({ verified: false, killed: 0 });
    expect((await host.inspectProcesses([root]))[0]).toMatchObject({ alive: true, matches: true });
    link.stop(stop);
    await ended;
  });

  test("reap ends a verified tree without anchor and launcher", async () => {
    const { link, ended } = await run(
      "run_a",
      ["sh", "-c", "sleep 1000 & setsid sleep 1000 & sleep 0.1; echo up; wait"],
      {
        env: { PATH: "/usr/bin:/bin", HOLDFAST_LEASE_ID: "lease_x" },
      },
    );
    await waitFor(async () => (await text("run_a")) === "up\n");
    const { anchor, root, boundary } = link.welcome;
    // Killed first, because it would sweep the tree as soon as its anchor dies.
    process.kill(await launcherAbove(link), "SIGKILL");
    process.kill(anchor.pid, "SIGKILL");
    expect(await ended).toBeNull();
    const cgroup =
      boundary.cgroup === null ? null : { path: boundary.cgroup, inode: boundary.cgroupInode ?? "" };
    const result = await host.reap({ root, cgroup, leaseId: "lease_x", graceMs: 100 });
    expect(result).toMatchObject({ verified: true, survivors: [] });
    expect(result.residue.map(({ kind, command }) => `${kind} ${command}`).toSorted()).toEqual([
      "background sleep",
      "detached sleep",
    ]);
    expect(result.emptiness).toBe(cgroup === null ? "unproven" : "proven");
    expect((await host.inspectProcesses([root]))[0]).toMatchObject({ matches: false });
    // Only the dead launcher's socket is left.
    await rm(join(instanceDir, "launcher.sock"), { force: true });
  });

  test("a launcher that died is replaced by the next start", async () => {
    const launcher = await currentLauncher("run_a");
    process.kill(launcher, "SIGKILL");
    expect(await runToEnd("run_c", ["/bin/true"])).toMatchObject({ leader: { code: 0 } });
    expect(await currentLauncher("run_d")).not.toBe(launcher);
  });

  test("runs that are being started when the launcher dies are started by the next one", async () => {
    const launcher = await currentLauncher("run_a");
    const ids = Array.from({ length: 60 }, (_, index) => `run_${index}`);
    const outcomes = Promise.allSettled(ids.map((id) => runToEnd(id, ["echo", id])));
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(launcher, "SIGKILL");
    // An anchor may die with its launcher; every start must be answered, and the instance must work.
    expect(await outcomes).toHaveLength(ids.length);
    expect(await runToEnd("run_z", ["/bin/true"])).toMatchObject({ leader: { code: 0 } });
  });

  test("a run whose launcher is killed before it reads START is started by the next one", async () => {
    for (let round = 0; round < 10; round += 1) {
      const launcher = await currentLauncher(`run_before_${round}`);
      // Stopped, so that START is unread when it dies.
      process.kill(launcher, "SIGSTOP");
      const starts = Promise.all([0, 1, 2].map((each) => run(`run_${round}_${each}`, ["/bin/true"])));
      await new Promise((resolve) => setTimeout(resolve, round));
      process.kill(launcher, "SIGKILL");
      for (const { ended } of await starts) expect(await ended).toMatchObject({ leader: { code: 0 } });
    }
  });

  /** Only a pid that certainly belongs to the launcher may be signalled. */
  async function launcherAbove(link: AnchorLink): Promise<number> {
    const [anchor] = await host.inspectProcesses([link.welcome.anchor]);
    const parentPid = anchor?.matches === true ? anchor.parentPid : 0;
    const [launcher] = parentPid > 1 ? await host.inspectProcesses([parentPid]) : [];
    if (launcher?.command.startsWith("anchor-") !== true) throw new Error("there is no launcher above it");
    return parentPid;
  }

  async function currentLauncher(runId: string): Promise<number> {
    const { link, ended } = await run(runId, ["sleep", "1000"]);
    const launcher = await launcherAbove(link);
    link.stop(stop);
    await ended;
    return launcher;
  }

  test("a second host of the instance uses the running launcher", async () => {
    const launcher = await currentLauncher("run_a");
    const later = await open("second");
    const link = await later.start(startSpec("run_c", ["/bin/true"]));
    const [evidence] = await later.inspectProcesses([link.welcome.anchor]);
    expect(evidence?.parentPid).toBe(launcher);
    link.close();
    await later[Symbol.asyncDispose]();
  });

  test("the run directory and the key in it are private", async () => {
    const { link, ended } = await run("run_a", ["sleep", "1000"]);
    const directory = join(instanceDir, "runs", "run_a");
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, "key"))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(directory, "key"), "utf8")).toMatch(/^[0-9a-f]{64}\n?$/);
    link.stop(stop);
    await ended;
  });
});
