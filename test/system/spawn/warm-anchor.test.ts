import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { type ChildProcess, spawn } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { encodeMessage, type MessageFields } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { waitFor } from "../../support/wait-for.js";

let bystander: ChildProcess;

beforeAll(() => {
  bystander = spawn("sleep", ["1000"], { stdio: "ignore", detached: true });
});

afterAll(() => {
  expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
  bystander.kill("SIGKILL");
});

interface Warm {
  readonly link: RawLink;
  readonly runId: string;
  readonly key: string;
  readonly welcome: MessageFields<"welcome">;
  readonly directory: string;
  readonly cgroup: string | null;
}

const key = randomBytes(32).toString("hex");

async function warm(launcher: RawLauncher, runId = "r1"): Promise<Warm> {
  const link = await launcher.connect();
  link.send(encodeMessage("warm", { runId, protocol: 2, instanceId: "in_raw", incarnation: "one", key }));
  const welcome = await link.receive("welcome");
  const directory = join(launcher.directory, "runs", `.${runId}`);
  const { cgroupDirectory } = JSON.parse(readFileSync(join(launcher.directory, "launcher.json"), "utf8")) as {
    cgroupDirectory: string | null;
  };
  const cgroup = cgroupDirectory === null ? null : join(cgroupDirectory, runId);
  return { link, runId, key, welcome, directory, cgroup };
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

async function untilGone({ welcome, cgroup }: Warm): Promise<void> {
  await waitFor(() => !isAlive(welcome.rootPid) && !isAlive(welcome.anchorPid), 10_000);
  if (cgroup !== null) await waitFor(() => !existsSync(cgroup));
}

async function finish({ link }: Warm): Promise<{ readonly executed: boolean; readonly spawnError: unknown }> {
  const { json } = await link.receive("exited");
  return JSON.parse(json) as { executed: boolean; spawnError: unknown };
}

test("START gives a warm anchor its command, directory, environment, umask and streams", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const run = launcher.runDirectory(anchor.runId);
  expect([existsSync(anchor.directory), existsSync(run)]).toEqual([true, false]);
  const script = 'pwd; umask; echo "$HOLDFAST_RUN_ID"; cat; echo err >&2; ls /proc/self/fd | wc -l';
  const spec = { key, cwd: "/usr", umask: 0o27, merge: 1, stdin: 0 };
  anchor.link.send(launcher.startFrame(anchor.runId, script, spec), encodeMessage("go", {}));
  expect(await finish(anchor)).toMatchObject({ executed: true });
  expect(await launcher.output(anchor.runId)).toBe("/usr\n0027\nr1\nerr\n4\n");
  expect([existsSync(anchor.directory), existsSync(join(run, "anchor.json"))]).toEqual([false, true]);
});

test("the process that WELCOME names is the one that executes the command, and only after GO", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const file = join(launcher.directory, "executed");
  anchor.link.send(launcher.startFrame(anchor.runId, `echo $$ > ${file}; sleep 1000`, { key }));
  anchor.link.send(encodeMessage("status", {}));
  await anchor.link.receive("welcome");
  expect(existsSync(file)).toBe(false);
  anchor.link.send(encodeMessage("go", {}));
  await waitFor(() => existsSync(file) && readFileSync(file, "utf8") !== "");
  expect(readFileSync(file, "utf8")).toBe(`${anchor.welcome.rootPid}\n`);
});

test("a working directory that is gone is an error of the start, and nothing is executed", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  anchor.link.send(
    launcher.startFrame(anchor.runId, "true", { key, cwd: "/nowhere" }),
    encodeMessage("go", {}),
  );
  expect(await anchor.link.receive("failed")).toMatchObject({ errno: 2, step: "cwd" });
  expect(await finish(anchor)).toMatchObject({ executed: false, spawnError: { errno: 2, step: "cwd" } });
});

test("a warm anchor whose owner hangs up leaves no process, cgroup or directory", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  anchor.link.close();
  await untilGone(anchor);
  await waitFor(() => readdirSync(join(launcher.directory, "runs")).length === 0);
});

test.each([
  ["TERM to the anchor", "SIGTERM", "anchorPid"],
  ["KILL of the child", "SIGKILL", "rootPid"],
] as const)("%s ends a warm anchor without a trace", async (_, signal, which) => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  process.kill(anchor.welcome[which], signal);
  await anchor.link.ended();
  await untilGone(anchor);
  await waitFor(() => readdirSync(join(launcher.directory, "runs")).length === 0);
});

test("KILL of a warm anchor ends its child, and its directory is not that of a run", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  // A stopped child cannot exit by itself.
  process.kill(anchor.welcome.rootPid, "SIGSTOP");
  process.kill(anchor.welcome.anchorPid, "SIGKILL");
  await untilGone(anchor);
  expect(readdirSync(join(launcher.directory, "runs"))).toEqual([`.${anchor.runId}`]);
});

test("KILL of the launcher ends its warm anchors", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  process.kill(launcher.pid, "SIGKILL");
  await untilGone(anchor);
  await waitFor(() => readdirSync(join(launcher.directory, "runs")).length === 0);
});

test("a warm anchor whose directory was removed creates that of its run", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  await rm(anchor.directory, { recursive: true });
  anchor.link.send(launcher.startFrame(anchor.runId, "echo here", { key }), encodeMessage("go", {}));
  expect(await finish(anchor)).toMatchObject({ executed: true });
  expect(await launcher.output(anchor.runId)).toBe("here\n");
  expect(existsSync(join(launcher.runDirectory(anchor.runId), "exit.json"))).toBe(true);
});

test("a directory that cannot get the name of its run is an error of the start, and nothing is executed", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const run = launcher.runDirectory(anchor.runId);
  await mkdir(run);
  await writeFile(join(run, "of another program"), "");
  const file = join(launcher.directory, "executed");
  anchor.link.send(launcher.startFrame(anchor.runId, `touch ${file}`, { key }), encodeMessage("go", {}));
  expect(await anchor.link.receive("failed")).toMatchObject({ step: "directory" });
  expect(await finish(anchor)).toMatchObject({ executed: false });
  await untilGone(anchor);
  expect(existsSync(file)).toBe(false);
});

test.each([
  ["another run", { runId: "r2" }],
  ["another key", { key: "k".repeat(64) }],
  ["a terminal", { pty: 1 }],
  ["a limit", { pids: 5 }],
] as const)("START with %s is refused, and nothing is executed", async (_, change) => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const file = join(launcher.directory, "executed");
  const frame = encodeMessage("start", {
    ...launcher.startContent(anchor.runId, `touch ${file}`, { key }),
    ...change,
  });
  anchor.link.send(frame, encodeMessage("go", {}));
  expect(await anchor.link.receive("failed")).toMatchObject({ step: "spec" });
  await untilGone(anchor);
  expect(existsSync(file)).toBe(false);
});

test.each(["go", "heartbeat", "status"] as const)("%s before START ends a warm anchor", async (name) => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  anchor.link.send(encodeMessage(name, {}));
  await anchor.link.ended();
  await untilGone(anchor);
});

test("GO that follows a lost owner executes nothing", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const file = join(launcher.directory, "executed");
  process.kill(anchor.welcome.anchorPid, "SIGSTOP");
  anchor.link.send(launcher.startFrame(anchor.runId, `touch ${file}`, { key }));
  anchor.link.socket.end();
  process.kill(anchor.welcome.anchorPid, "SIGCONT");
  await untilGone(anchor);
  expect(await launcher.readRunFile(anchor.runId, "exit.json")).toMatchObject({ executed: false });
  expect(existsSync(file)).toBe(false);
});

test("a START that is cut off leaves the marked directory: its run may be on record, and was not executed", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  const start = launcher.startFrame(anchor.runId, "true", { key });
  anchor.link.send(start.subarray(0, start.length - 1));
  anchor.link.socket.end();
  await untilGone(anchor);
  expect(readdirSync(join(launcher.directory, "runs"))).toEqual([`.${anchor.runId}`]);
});

test("so does a START that an anchor has not read when it is terminated", async () => {
  const launcher = await RawLauncher.start();
  const anchor = await warm(launcher);
  process.kill(anchor.welcome.anchorPid, "SIGSTOP");
  anchor.link.send(launcher.startFrame(anchor.runId, "true", { key }).subarray(0, 8));
  process.kill(anchor.welcome.anchorPid, "SIGTERM");
  process.kill(anchor.welcome.anchorPid, "SIGCONT");
  anchor.link.socket.end();
  await untilGone(anchor);
  expect(readdirSync(join(launcher.directory, "runs"))).toEqual([`.${anchor.runId}`]);
});

test("a second anchor of the same id takes nothing from the first", async () => {
  const launcher = await RawLauncher.start();
  const first = await warm(launcher);
  const second = await launcher.connect();
  second.send(
    encodeMessage("warm", { runId: "r1", protocol: 2, instanceId: "in_raw", incarnation: "two", key }),
  );
  await second.receive("failed");
  first.link.send(launcher.startFrame(first.runId, "echo first", { key }), encodeMessage("go", {}));
  expect(await finish(first)).toMatchObject({ executed: true });
  expect(await launcher.output(first.runId)).toBe("first\n");
});

test("under a low limit of descriptors a warm anchor gets its run", async () => {
  const launcher = await RawLauncher.start(anchorEnvironment(), "ulimit -n 32");
  const anchor = await warm(launcher);
  anchor.link.send(launcher.startFrame(anchor.runId, "echo few", { key }), encodeMessage("go", {}));
  expect(await finish(anchor)).toMatchObject({ executed: true });
  expect(await launcher.output(anchor.runId)).toBe("few\n");
});
