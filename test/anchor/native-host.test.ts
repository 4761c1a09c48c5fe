import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../src/anchor/binary.js";
import type { AnchorEvent, AnchorExit, AnchorLink, RunAddress, StreamName } from "../../src/anchor/host.js";
import { type NativeHost, openNativeHost } from "../../src/anchor/native-host.js";
import { PROTOCOL } from "../../src/anchor/protocol/messages.js";
import { SpawnFailed, StaleEpoch } from "../../src/errors.js";
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
    await (
      await run("run_a", ["/bin/true"])
    ).ended;
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
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await text("run_a")).toBe("");
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

  test("passes arguments, environment, directory and umask unchanged", async () => {
    const { ended } = await run("run_a", ["sh", "-c", 'pwd; umask; echo "$A|$1|$#"', "sh", "ü \n'\"$x"], {
      env: { PATH: "/usr/bin:/bin", A: "é=1" },
      cwd: tmpdir(),
      umask: 0o027,
    });
    await ended;
    expect(await text("run_a")).toBe(`${tmpdir()}\n0027\né=1|ü \n'"$x|1\n`);
  });

  test("says why a command did not start, and leaves nothing running", async () => {
    const { events, ended } = await run("run_a", ["/no/such/command"]);
    expect(await ended).toMatchObject({
      executed: false,
      reason: "spawn-error",
      spawnError: { step: "exec", errno: 2 },
    });
    expect(events).toContainEqual({
      type: "failed",
      failure: {
        errno: 2,
        step: "exec",
        message: expect.stringContaining("cannot run /no/such/command: no such command"),
      },
    });
  });

  test("says why a directory cannot be entered", async () => {
    const outcome = await host.start(startSpec("run_a", ["/bin/true"], { cwd: "/no/such/place" })).then(
      async (link) => {
        const { events, ended } = watch(link);
        link.go();
        await ended;
        return events.find(({ type }) => type === "failed");
      },
      (error: unknown) => error,
    );
    const sentence = "cannot enter directory /no/such/place: no such directory";
    if (outcome instanceof SpawnFailed)
      expect(outcome).toMatchObject({ step: "cwd", errno: 2, message: sentence });
    else expect(outcome).toMatchObject({ failure: { step: "cwd", errno: 2, message: sentence } });
  });

  test("a run without GO does not execute", async () => {
    const { link, ended } = watch(await host.start(startSpec("run_a", ["sh", "-c", "echo ran"])));
    link.stop(stop);
    expect(await ended).toMatchObject({ executed: false });
    expect(await text("run_a")).toBe("");
  });

  test("stops a tree, and answers every later stop with the first one", async () => {
    const { link, events, ended } = await run("run_a", [
      "sh",
      "-c",
      "sleep 1000 & setsid sleep 1000 & echo up; wait",
    ]);
    await waitFor(async () => (await text("run_a")) === "up\n");
    link.stop(stop);
    link.stop({ ...stop, actor: "second", requestId: "two" });
    const exit = await ended;
    expect(exit).toMatchObject({
      reason: "manual-cancel",
      actor: "test",
      requestId: "req",
      emptiness: "proven",
    });
    expect(events.filter(({ type }) => type === "stopping")).toEqual([
      { type: "stopping", stop: { reason: "manual-cancel", actor: "test", requestId: "req" } },
      { type: "stopping", stop: { reason: "manual-cancel", actor: "test", requestId: "req" } },
    ]);
    expect((await host.readRunFiles(at("run_a"))).firstStop).toEqual({
      reason: "manual-cancel",
      actor: "test",
      requestId: "req",
    });
  });

  test("writes stdin by offset within the limit, and closes it", async () => {
    const { link, events, ended } = await run("run_a", ["cat"], { stdin: "pipe" });
    const data = Buffer.from("0123456789".repeat(30_000));
    let { stdinLimit: limit } = link.welcome;
    let sent = 0;
    while (sent < data.length) {
      if (sent < limit) {
        const next = Math.min(limit, data.length);
        link.write(sent, data.subarray(sent, next));
        sent = next;
      }
      await new Promise((resolve) => setImmediate(resolve));
      for (const event of events) if (event.type === "stdin") limit = Math.max(limit, event.limit);
    }
    link.write(0, data.subarray(0, 10));
    link.closeStdin(data.length);
    expect(await ended).toMatchObject({ reason: "exit", leader: { code: 0 }, stdout: { end: data.length } });
    expect(await text("run_a")).toBe(data.toString());
  });

  test("creates a terminal of the requested size, and resizes it", async () => {
    const { link, ended } = await run(
      "run_a",
      ["sh", "-c", "test -t 0 && test -t 1; echo $?; stty size; read x; stty size"],
      {
        io: "pty",
        stdin: "pipe",
        size: { rows: 11, cols: 33 },
      },
    );
    await waitFor(async () => (await text("run_a")).includes("11 33"));
    link.resize({ rows: 22, cols: 44 });
    link.write(0, Buffer.from("go\n"));
    await ended;
    expect((await text("run_a")).split("\r\n")).toEqual(expect.arrayContaining(["0", "11 33", "22 44"]));
  });

  test("is re-attached to by a later supervisor, and the earlier one loses control", async () => {
    const former = await run("run_a", ["sh", "-c", "echo one; read x; echo $x; exit 7"], { stdin: "pipe" });
    await waitFor(async () => (await text("run_a")) === "one\n");
    const later = await open("second");
    const link = await later.attach(at("run_a"), 2);
    if (link === null) throw new Error("nobody answered");
    expect(link.welcome).toMatchObject({ phase: "running", highestEpoch: 2, root: former.link.welcome.root });
    await former.ended;
    await expect(host.attach(at("run_a"), 2)).rejects.toBeInstanceOf(StaleEpoch);
    await expect(host.attach(at("run_a"), 1)).rejects.toMatchObject({ highestEpoch: 2 });
    const { ended } = watch(link);
    link.write(0, Buffer.from("two\n"));
    expect(await ended).toMatchObject({ leader: { code: 7, signal: null } });
    expect(await text("run_a")).toBe("one\ntwo\n");
    await later[Symbol.asyncDispose]();
  });

  test("an observer may watch and stop a run, but not control it", async () => {
    const { ended } = await run("run_a", ["sleep", "1000"]);
    const observer = await host.attach(at("run_a"), 0);
    if (observer === null) throw new Error("nobody answered");
    const seen = watch(observer);
    observer.heartbeat();
    await waitFor(() => seen.events.some(({ type }) => type === "refused"));
    expect(seen.events).toContainEqual(expect.objectContaining({ type: "refused", code: "not-owner" }));
    observer.stop(stop);
    expect(await ended).toMatchObject({ reason: "manual-cancel" });
    expect(await seen.ended).toMatchObject({ reason: "manual-cancel" });
  });

  test("attach finds no anchor for a run that has ended or never existed", async () => {
    await (
      await run("run_a", ["/bin/true"])
    ).ended;
    expect(await host.attach(at("run_a"), 5)).toBeNull();
    expect(await host.attach(at("run_never"), 5)).toBeNull();
  });

  test("a run whose owner is gone is ended by its anchor", async () => {
    const { link } = await run("run_a", ["sleep", "1000"]);
    link.close();
    await waitFor(async () => (await host.readRunFiles(at("run_a"))).exit !== null);
    expect((await host.readRunFiles(at("run_a"))).exit).toMatchObject({
      reason: "owner-lost",
      emptiness: "proven",
    });
  });

  test("keeps the output of a fast program within the limit, and reports dropped bytes", async () => {
    const bound = 256 * 1024;
    const spool = { boundBytes: bound, policy: "keep-newest" } as const;
    const total = 5_000_000;
    const { ended } = await run("run_a", ["sh", "-c", `head -c ${total} /dev/zero | tr '\\0' x`], {
      stdout: spool,
    });
    const exit = await ended;
    expect(exit?.stdout.end).toBe(total);
    expect(exit?.stdout.dropped).toBe(exit?.stdout.start);
    const first = await host.readOutput(at("run_a"), "stdout", 0, 10);
    expect(first.offset).toBe(exit?.stdout.start);
    expect(total - first.offset).toBeLessThanOrEqual(bound);
  });

  test("back-pressure loses nothing and continues after an acknowledgement", async () => {
    const spool = { boundBytes: 64 * 1024, policy: "back-pressure" } as const;
    const total = 1_000_000;
    const { link, ended } = await run("run_a", ["head", "-c", String(total), "/dev/zero"], { stdout: spool });
    let offset = 0;
    while (offset < total) {
      const slice = await host.readOutput(at("run_a"), "stdout", offset, 1 << 20);
      expect(slice.bytes.length === 0 || slice.offset === offset).toBe(true);
      offset += slice.bytes.length;
      if (slice.bytes.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      else link.acknowledge("stdout", offset);
    }
    expect(await ended).toMatchObject({ stdout: { end: total, dropped: 0 } });
  });

  test("many runs at once all start, through one launcher", async () => {
    const ids = Array.from({ length: 300 }, (_, index) => `run_${index}`);
    const exits = await Promise.all(ids.map(async (id) => (await run(id, ["sh", "-c", `echo ${id}`])).ended));
    expect(exits.every((exit) => exit?.leader?.code === 0)).toBe(true);
    expect(await text("run_299")).toBe("run_299\n");
    expect(new Set(await host.listRunIds("in_test"))).toEqual(new Set(ids));
  });

  test("inspects live and dead processes", async () => {
    const { link, ended } = await run("run_a", ["sh", "-c", "sleep 1000 & echo up; wait"], {
      env: { PATH: "/usr/bin:/bin", HOLDFAST_RUN_ID: "run_a", HOLDFAST_LEASE_ID: "lease_x" },
    });
    await waitFor(async () => (await text("run_a")) === "up\n");
    const { root } = link.welcome;
    const wrong = { ...root, startTime: root.startTime + 1, uniqueId: null };
    const [exact, byNumber, other, none] = await host.inspectProcesses([root, root.pid, wrong, 2 ** 22 - 3]);
    expect(exact).toMatchObject({
      identity: root,
      alive: true,
      matches: true,
      command: "sh",
      leaseId: "lease_x",
      runId: "run_a",
    });
    expect(exact?.descendants).toMatchObject([{ parentPid: root.pid, command: "sleep" }]);
    expect(byNumber).toMatchObject({ identity: root, matches: true });
    expect(other).toMatchObject({ matches: false });
    expect(none).toMatchObject({ alive: false, matches: false, descendants: [] });
    expect(await host.inspectProcesses([])).toEqual([]);
    link.stop(stop);
    await ended;
    expect((await host.inspectProcesses([root]))[0]).toMatchObject({ matches: false });
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

  test("an anchor that is killed is reported, and its tree is swept by the launcher", async () => {
    const losses: { runId: string }[] = [];
    host.onAnchorLost((loss) => losses.push(loss));
    const { link, ended } = await run("run_a", ["sh", "-c", "setsid sleep 1000 & echo up; wait"]);
    await waitFor(async () => (await text("run_a")) === "up\n");
    const { anchor, root } = link.welcome;
    process.kill(anchor.pid, "SIGKILL");
    expect(await ended).toBeNull();
    await waitFor(async () => (await host.readRunFiles(at("run_a"))).swept !== null);
    expect((await host.readRunFiles(at("run_a"))).swept).toMatchObject({
      anchorSignal: 9,
      emptiness: "proven",
    });
    expect(losses).toEqual([{ runId: "run_a", anchorPid: anchor.pid, status: { code: null, signal: 9 } }]);
    expect((await host.inspectProcesses([root]))[0]).toMatchObject({ matches: false });
  });

  test("a launcher that died is replaced by the next start", async () => {
    await (
      await run("run_a", ["/bin/true"])
    ).ended;
    const launcher = await currentLauncher("run_b");
    process.kill(launcher, "SIGKILL");
    const { ended } = await run("run_c", ["sh", "-c", "echo again"]);
    expect(await ended).toMatchObject({ leader: { code: 0 } });
    expect(await currentLauncher("run_d")).not.toBe(launcher);
  });

  test("runs that are being started when the launcher dies are started by the next one", async () => {
    const launcher = await currentLauncher("run_a");
    const ids = Array.from({ length: 60 }, (_, index) => `run_${index}`);
    const outcomes = Promise.allSettled(ids.map(async (id) => (await run(id, ["echo", id])).ended));
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(launcher, "SIGKILL");
    // An anchor may die with its launcher; every start must be answered, and the instance must work.
    expect(await outcomes).toHaveLength(ids.length);
    expect(await (await run("run_z", ["/bin/true"])).ended).toMatchObject({ leader: { code: 0 } });
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
    await (
      await run("run_a", ["/bin/true"])
    ).ended;
    const launcher = await currentLauncher("run_b");
    const later = await open("second");
    const link = await later.start(startSpec("run_c", ["/bin/true"]));
    const [evidence] = await later.inspectProcesses([link.welcome.anchor]);
    expect(evidence?.parentPid).toBe(launcher);
    link.close();
    await later[Symbol.asyncDispose]();
  });

  test("removing a run's directory removes nothing else", async () => {
    await (
      await run("run_a", ["/bin/true"])
    ).ended;
    await (
      await run("run_b", ["sh", "-c", "echo b"])
    ).ended;
    await host.removeRunDirectory(at("run_a"));
    expect(await readdir(join(instanceDir, "runs"))).toEqual(["run_b"]);
    expect(await text("run_b")).toBe("b\n");
    expect(await text("run_a")).toBe("");
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
