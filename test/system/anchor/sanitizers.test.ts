import { execFile, spawnSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openNativeHost } from "../../../src/anchor/native-host.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { parseExit } from "../../../src/anchor/run-dir/run-files.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { rawField, rawFrame } from "../../support/anchor/raw-link.js";
import { startSpec } from "../../support/anchor/start-spec.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  temporaryHome,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";

const run = promisify(execFile);
const project = fileURLToPath(new URL("../../..", import.meta.url));
const soak = process.env["HOLDFAST_SOAK"] === "1";
const compiler = process.env["CC"] ?? "cc";
const canCompile = spawnSync(compiler, ["--version"], { stdio: "ignore", shell: true }).status === 0;
const hasValgrind = spawnSync("valgrind", ["--version"], { stdio: "ignore" }).status === 0;

let reports: string;

beforeAll(async () => {
  reports = await mkdtemp(join(tmpdir(), "hf-reports-"));
  process.env["ASAN_OPTIONS"] = `log_path=${reports}/asan:exitcode=99`;
  process.env["UBSAN_OPTIONS"] = `log_path=${reports}/ubsan:halt_on_error=1:print_stacktrace=1`;
  if (canCompile) await run(process.execPath, [join(project, "scripts/build-anchor.mjs"), "--asan"]);
  process.env["HOLDFAST_ANCHOR"] = join(project, "build/anchor-asan");
});

afterEach(async () => {
  const texts = (await readdir(reports)).map((name) => readFile(join(reports, name), "utf8"));
  const found = await Promise.all(texts);
  for (const name of await readdir(reports)) await rm(join(reports, name));
  expect(found).toEqual([]);
});

afterAll(async () => {
  await rm(reports, { recursive: true, force: true });
});

describe.skipIf(!canCompile)("under the sanitizers, without a report:", () => {
  test("the launcher and the anchor are built with sanitizers", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("read line"));
    const anchor = (await supervisor.getRun(begun.runId))?.anchor?.pid ?? 0;
    expect(await readFile(`/proc/${anchor}/environ`, "utf8")).toContain(`log_path=${reports}/asan`);
    expect(await readFile(`/proc/${anchor}/maps`, "utf8")).toMatch(/libasan|asan/);
    await begun.closeStdin();
    await begun.wait();
  });

  test("a report of a sanitizer fails the test", async () => {
    const home = await temporaryHome();
    const [source, program] = [join(home, "wrong.c"), join(home, "wrong")];
    await writeFile(
      source,
      "#include <stdlib.h>\nint main(void) { char *p = malloc(1); p[1] = 1; free(p); }\n",
    );
    await run("sh", ["-c", `${compiler} -fsanitize=address,undefined -o "$1" "$2"`, "sh", program, source]);
    await expect(run(program, [])).rejects.toMatchObject({ code: 99 });
    const [name = ""] = await readdir(reports);
    expect(await readFile(join(reports, name), "utf8")).toContain("heap-buffer-overflow");
    await rm(join(reports, name));
  });

  test("a pipe run: input, both outputs, arguments, environment, exit code", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("cat; echo $WORD >&2; exit 7"), {
      env: { WORD: "grün" },
      umask: 0o027,
    });
    const input = "0123456789\n".repeat(30_000);
    await begun.write(input);
    await begun.closeStdin();
    expect(await readOutput(begun)).toEqual({ stdout: input, stderr: "grün\n" });
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 7 });
  });

  test("a PTY run: size, resize, end of input", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      { io: "pty", ptyCommand: "stty size; read line; stty size; cat; exit 4" },
      { size: { rows: 30, cols: 100 } },
    );
    await waitForOutput(begun, "30 100");
    begun.resize({ rows: 50, cols: 120 });
    await begun.write("go\n");
    await waitForOutput(begun, "50 120");
    await begun.closeStdin();
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 4 });
  });

  test("commands that cannot be started", async () => {
    const supervisor = await realSupervisor();
    for (const argv of [["/nonexistent/command"], ["/etc/passwd"], ["/"]])
      await expect(supervisor.spawn({ io: "pipe", argv })).rejects.toMatchObject({ code: "SPAWN_FAILED" });
    await expect(
      supervisor.spawn({ io: "pty", argv: ["/bin/true"] }, { cwd: "/nonexistent" }),
    ).rejects.toMatchObject({ code: "SPAWN_FAILED" });
  });

  test("a stop of two hundred processes, some of them detached and ignoring TERM", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3051");
    const script = `
      for i in $(seq 1 100); do sleep 3051 & done
      for i in $(seq 1 50); do setsid sleep 3051 & done
      (trap '' TERM; for i in $(seq 1 50); do sleep 3051 & done; wait) &
      echo ready; wait`;
    const begun = await supervisor.spawn(shellInput(script), { graceMs: 200 });
    await waitForOutput(begun, "ready");
    await begun.cancel({ actor: "test" });
    expect(await begun.wait()).toMatchObject({
      exit: { reason: "manual-cancel", actor: "test" },
      emptiness: "proven",
    });
    expect(await findProcessesOfRun(begun.runId)).toEqual([]);
  });

  test("three hundred members listed, and some of them signalled", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("for i in $(seq 300); do sleep 3051 & done; echo ready; read line"),
    );
    await waitForOutput(begun, "ready");
    const members = await begun.members();
    expect(members).toHaveLength(301);
    const sleepers = members.flatMap(({ identity }) => (identity.pid === begun.rootPid ? [] : [identity]));
    expect(await begun.signal(sleepers, "SIGKILL")).toBe(300);
    await begun.closeStdin();
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit" });
  });

  test("residue of every kind, swept and reported", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("sleep 3051 & (env -i setsid sh -c 'sleep 3051 & sleep 3051' &); exit 3"),
      { graceMs: 100 },
    );
    expect(await begun.wait()).toMatchObject({
      exit: { reason: "ownership-escape", code: 3 },
      emptiness: "proven",
    });
  });

  test("a flood into a spool that keeps the newest", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(
      shellInput("head -c 20000000 /dev/zero; head -c 5000000 /dev/zero >&2"),
      {
        stdout: { boundBytes: 256 * 1024 },
        stderr: { boundBytes: 64 * 1024 },
      },
    );
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
    const { offset, bytes } = await begun.read("stdout", { offset: 19_999_990 });
    expect({ offset, length: bytes.length }).toEqual({ offset: 19_999_990, length: 10 });
  });

  test("a flood into a spool that holds the program back", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("seq 1 400000"), {
      stdout: { policy: "back-pressure", boundBytes: 64 * 1024 },
    });
    const { stdout } = await readOutput(begun, { ack: true });
    expect(stdout).toBe(Array.from({ length: 400_000 }, (_, at) => `${at + 1}\n`).join(""));
    expect((await begun.wait()).exit).toMatchObject({ code: 0 });
  });

  test("owners that attach and disconnect", async () => {
    const home = await temporaryHome();
    let supervisor = await realSupervisor({ home, instanceId: "in_asan" });
    const { runId } = await supervisor.spawn(shellInput("cat; exit 9"));
    for (let round = 0; round < 5; round++) {
      await supervisor.run(runId)?.write(`round ${round}\n`);
      await supervisor.close({ leaveRuns: true });
      supervisor = await realSupervisor({ home, instanceId: "in_asan" });
      expect(await supervisor.recover()).toHaveLength(1);
    }
    const begun = supervisor.run(runId);
    await begun?.closeStdin();
    expect((await begun?.wait())?.exit).toMatchObject({ reason: "exit", code: 9 });
  });

  test("an anchor killed outright, a launcher that cleans up, a tree that is reaped", async () => {
    const home = await temporaryHome();
    const instanceDir = join(home, "instances", "in_asan");
    await mkdir(instanceDir, { recursive: true });
    const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
    await using host = await openNativeHost({
      home,
      instanceId: "in_asan",
      incarnation: "i",
      instanceDir,
      machine,
    });
    const link = await host.start(startSpec("run_a", ["sh", "-c", "sleep 3051 & wait"]));
    link.go();
    await started(link);
    const { anchor, root, boundary } = link.welcome;
    const [evidence] = await host.inspectProcesses([anchor, root]);
    for (const signal of ["SIGSTOP", "SIGKILL"]) process.kill(evidence?.parentPid ?? 0, signal);
    process.kill(anchor.pid, "SIGKILL");
    const cgroup =
      boundary.cgroup === null ? null : { path: boundary.cgroup, inode: boundary.cgroupInode ?? "" };
    const reaped = await host.reap({ root, cgroup, leaseId: null, graceMs: 50 });
    expect(reaped).toMatchObject({ verified: true, survivors: [] });

    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("setsid sleep 3051 & echo ready; wait"));
    await waitForOutput(begun, "ready");
    process.kill((await supervisor.getRun(begun.runId))?.anchor?.pid ?? 0, "SIGKILL");
    expect((await begun.wait()).exit).toMatchObject({ reason: "lost" });
  });

  test("garbage on both sockets, and the run continues", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("cat; exit 5"));
    const instance = join(supervisor.home, "instances", supervisor.instanceId);
    const sockets = [join(instance, "launcher.sock"), join(instance, "runs", begun.runId, "sock")];
    const rounds = soak ? 5_000 : 150;
    for (let round = 0; round < rounds; round++)
      await Promise.all(sockets.map((path) => throwAt(path, garbage(round, begun.runId))));
    await begun.write("still here\n");
    await begun.closeStdin();
    expect((await readOutput(begun)).stdout).toBe("still here\n");
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 5 });
    await nothingBut(supervisor, begun.runId);
  });

  test("frames of the owner with numbers at every limit, and the run continues", async () => {
    plantLookalike("sleep", "3052");
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "sleep 3052 & echo $!; read line; exit 6", { pty: 1 });
    const rounds = soak ? 20_000 : 400;
    for (let round = 0; round < rounds; round++) {
      owner.send(extremeFrame());
      if (round % 50 !== 0) continue;
      owner.send(encodeMessage("status", {}));
      expect(await owner.receive("welcome")).toMatchObject({ phase: 2, reason: null });
    }
    owner.send(encodeMessage("write", { offset: 0, data: Buffer.from("on\n") }));
    expect(parseExit((await owner.receive("exited")).json)).toMatchObject({ leader: { code: 6 } });
  });

  test("PID 1 of a container", async () => {
    const init = run(join(project, "build/anchor-asan"), ["init", "--", "sh", "-c", "(sleep 0.1 &); exit 3"]);
    await expect(init).rejects.toMatchObject({ code: 3 });
  });

  // The whole protocol suite again; in an ordinary run the tests above stand for it.
  test.runIf(soak)("all tests of the protocol", async () => {
    const vitest = join(project, "node_modules/vitest/vitest.mjs");
    await run(process.execPath, [vitest, "run", "test/system/anchor/protocol"], {
      cwd: project,
      env: process.env,
    });
  });
});

describe.skipIf(!canCompile)("the parts that are tested alone", () => {
  const flags = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror"];
  const sanitize = ["-fsanitize=address,undefined"];
  const factor = soak ? 50 : 1;
  const programs = [
    { name: "fuzz-wire", part: "wire", place: false, sanitized: 30_000, watched: 400 },
    { name: "check-spool", part: "spool", place: true, sanitized: 10, watched: 1 },
  ] as const;

  async function compile(name: string, part: string, more: readonly string[]): Promise<string> {
    const output = join(await temporaryHome(), name);
    const sources = [join(project, `test/system/anchor/native/${name}.c`), join(project, `anchor/${part}.c`)];
    const [command = "cc", ...words] = compiler.split(/\s+/);
    await run(command, [...words, ...flags, ...more, "-o", output, ...sources]);
    return output;
  }

  async function argumentsOf(place: boolean, seed: number, rounds: number): Promise<string[]> {
    const numbers = [String(seed), String(rounds)];
    return place ? [await temporaryHome(), ...numbers] : numbers;
  }

  for (const { name, part, place, sanitized, watched } of programs) {
    test(`${name} finds nothing with sanitizers`, async () => {
      const program = await compile(name, part, sanitize);
      for (let seed = 1; seed <= 2; seed++)
        await run(program, await argumentsOf(place, seed, sanitized * factor));
    });

    test.skipIf(!hasValgrind)(`${name} finds nothing under valgrind`, async () => {
      const program = await compile(name, part, []);
      const args = await argumentsOf(place, 3, watched * factor);
      await run("valgrind", ["-q", "--error-exitcode=9", program, ...args]);
    });
  }
});

function started(
  link: Awaited<ReturnType<Awaited<ReturnType<typeof openNativeHost>>["start"]>>,
): Promise<void> {
  return new Promise((resolve) => {
    link.listen((event) => {
      if (event.type === "started") resolve();
    });
  });
}

/**
 * POLICY, RESIZE, ADOPT, SIGNAL or ACK with numbers at the limits of types. No time that would end the run within the
 * test.
 */
function extremeFrame(): Buffer {
  const edges = [16n, 31n, 32n, 47n, 48n, 53n, 63n, 64n].flatMap((bits) => [2n ** bits - 1n, 2n ** bits]);
  const numbers = edges.filter((number) => number < 2n ** 64n);
  const any = (): bigint => numbers[randomInt(numbers.length)] ?? 0n;
  const late = (): bigint => (randomInt(4) === 0 ? 0n : any() | (1n << 31n));
  const field = (tag: number, number: bigint): Buffer =>
    randomInt(20) === 0 ? rawField(tag, Buffer.alloc(randomInt(16), 255)) : rawField(tag, number);
  const frames = [
    () => rawFrame(10, field(60, late()), field(61, late()), field(62, late()), field(30, any())),
    () => rawFrame(8, field(38, any()), field(39, any())),
    () =>
      rawFrame(
        14,
        rawField(2, "run_x"),
        rawField(6, "k".repeat(40)),
        field(8, any()),
        field(9, any()),
        field(30, any()),
      ),
    () => rawFrame(15, field(32, any()), rawField(87, randomBytes(24)), rawField(87, Buffer.alloc(24, 255))),
    () => rawFrame(9, field(18, any()), field(19, any())),
    () => rawFrame(9, field(18, 1n), field(19, any())),
  ];
  return (frames[randomInt(frames.length)] ?? frames[0])?.() ?? Buffer.alloc(0);
}

/** Random bytes, and frames that are almost valid, which reach more code. */
function garbage(round: number, runId: string): Buffer {
  if (round % 3 === 0) return randomBytes(randomInt(1, 3000));
  const hello = encodeMessage("hello", {
    protocol: 1,
    runId,
    instanceId: "i",
    incarnation: "i",
    epoch: 9,
    key: "f".repeat(64),
  });
  const stop = encodeMessage("stop", { reason: "r", actor: "a", requestId: "q", graceMs: 0 });
  const members = encodeMessage("members", { requestId: "q" });
  const bytes = Buffer.concat([encodeMessage("hold", {}), hello, members, stop].slice(round % 2));
  for (let hits = randomInt(0, 6); hits > 0; hits--) bytes[randomInt(bytes.length)] = randomInt(256);
  return bytes.subarray(0, randomInt(1, bytes.length + 1));
}

/** Sends the bytes and waits for the end of the connection, but not for long, because some of them are valid starts. */
async function throwAt(path: string, bytes: Buffer): Promise<void> {
  const socket = connect(path);
  socket.on("error", () => {});
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.once("connect", () => socket.end(bytes));
    socket.setTimeout(20, () => socket.destroy());
    socket.resume();
  });
}

/** Garbage is not a START: no other run was created. */
async function nothingBut(supervisor: Supervisor, runId: string): Promise<void> {
  const runs = await readdir(join(supervisor.home, "instances", supervisor.instanceId, "runs"));
  expect(runs).toEqual([runId]);
}
