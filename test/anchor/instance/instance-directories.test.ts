import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { AnchorLink } from "../../../src/anchor/host-interface.js";
import { type NativeHost, openNativeHost } from "../../../src/anchor/native-host.js";
import { isLauncherListening } from "../../../src/anchor/protocol/connection.js";
import { BadInput } from "../../../src/errors.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { startSpec } from "../../support/anchor/start-spec.js";
import { plantBystander } from "../../support/bystander.js";
import { waitFor } from "../../support/wait-for.js";

let home: string;
let host: NativeHost;
const hosts: NativeHost[] = [];

/** Unique per test run, because cgroups are named by instance ids. */
const OTHER = `in_other_${process.pid}_${Date.now()}`;
const LAUNCHED = `in_launched_${process.pid}_${Date.now()}`;

const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
const stop = { reason: "shutdown", actor: "test", requestId: "", graceMs: 0 };
const outside = ["..", "../x", "a/b", "/etc", "", ".", "A", "x".repeat(64), "a\0b"];

function directory(instanceId: string): string {
  return join(home, "instances", instanceId);
}

async function open(instanceId: string): Promise<NativeHost> {
  const instanceDir = directory(instanceId);
  await mkdir(instanceDir, { recursive: true, mode: 0o700 });
  const opened = await openNativeHost({ home, instanceId, incarnation: "one", instanceDir, machine });
  hosts.push(opened);
  return opened;
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "hf-instances-"));
  host = await open("in_own");
});

afterEach(async () => {
  for (const each of hosts.splice(0)) await each[Symbol.asyncDispose]();
  const ids = await readdir(join(home, "instances"));
  for (const id of ids) await waitFor(async () => !(await isLauncherListening(directory(id))), 15_000);
  await rm(home, { recursive: true, force: true });
});

async function started(from: NativeHost, runId: string, script: string): Promise<AnchorLink> {
  const link = await from.start(startSpec(runId, ["/bin/sh", "-c", script]));
  link.go();
  return link;
}

async function ended(link: AnchorLink): Promise<void> {
  await new Promise<void>((resolve) => {
    link.listen((event) => {
      if (event.type === "closed") resolve();
    });
  });
}

/** A dead instance: a directory that no process has locked. */
async function deadInstance(instanceId: string): Promise<string> {
  const path = directory(instanceId);
  await mkdir(join(path, "runs"), { recursive: true });
  await (await acquireInstanceLock(path))[Symbol.asyncDispose]();
  await writeFile(join(path, "launcher.json"), "{}");
  await writeFile(join(path, "launcher.sock"), "");
  return path;
}

describe("the instances of a state directory", () => {
  test("are all listed: alive while the lock is held, launched while the launcher listens", async () => {
    await deadInstance("in_dead");
    const other = await open(OTHER);
    const lock = await acquireInstanceLock(directory(OTHER));
    onTestFinished(() => lock[Symbol.asyncDispose]());
    await writeFile(join(home, "instances", "a-file"), "");
    await mkdir(join(home, "instances", "Not An Id"));
    const link = await started(other, "run_a", "sleep 1000");
    const listed = await host.listInstances();
    expect(listed.toSorted((a, b) => a.instanceId.localeCompare(b.instanceId))).toEqual([
      { instanceId: "in_dead", alive: false, launched: false },
      { instanceId: OTHER, alive: true, launched: true },
      { instanceId: "in_own", alive: true, launched: false },
    ]);
    link.stop(stop);
    await ended(link);
  });

  test("can be listed repeatedly without disturbing a launcher", async () => {
    const other = await open(OTHER);
    const link = await started(other, "run_a", "sleep 1000");
    for (let round = 0; round < 50; round += 1)
      await Promise.all(Array.from({ length: 10 }, () => host.listInstances()));
    const next = await started(other, "run_b", "exit 0");
    await ended(next);
    link.stop(stop);
    await ended(link);
    expect((await other.readRunFiles({ instanceId: OTHER, runId: "run_b" })).exit?.leader?.code).toBe(0);
  });

  test("are never outside the state directory", async () => {
    for (const instanceId of outside) {
      const run = { instanceId, runId: "run_a" };
      await expect(host.attach(run, 0), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.readOutput(run, "stdout", 0, 1), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.readRunFiles(run), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.removeRunDirectory(run), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.listRunIds(instanceId), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.listRunCgroups(instanceId), instanceId).rejects.toBeInstanceOf(BadInput);
      await expect(host.removeInstance(instanceId), instanceId).rejects.toBeInstanceOf(BadInput);
      const within = { instanceId: "in_own", runId: instanceId };
      await expect(host.removeRunDirectory(within), instanceId).rejects.toBeInstanceOf(BadInput);
    }
  });
});

describe("a run of another instance", () => {
  test("can be read, attached to, stopped and removed from here", async () => {
    const other = await open(OTHER);
    const first = await started(other, "run_a", "echo hello; sleep 1000");
    const run = { instanceId: OTHER, runId: "run_a" };
    await waitFor(async () => (await host.readOutput(run, "stdout", 0, 100)).bytes.length > 0);
    expect(await host.listRunIds(OTHER)).toEqual(["run_a"]);
    expect(await host.listRunIds("in_own")).toEqual([]);
    expect(await host.listRunIds("in_never")).toEqual([]);
    const link = await host.attach(run, 2);
    expect(link?.welcome).toMatchObject({ phase: "running", highestEpoch: 2 });
    expect(link?.welcome.elapsedMs).toBeGreaterThan(0);
    expect(first.welcome.elapsedMs).toBeNull();
    link?.stop(stop);
    if (link !== null) await ended(link);
    expect((await host.readRunFiles(run)).exit).toMatchObject({ reason: "shutdown", emptiness: "proven" });
    await host.removeRunDirectory(run);
    expect(await host.listRunIds(OTHER)).toEqual([]);
  });
});

describe("the cgroups of an instance's runs", () => {
  test("are listed with the paths of the records, and so are their processes", async ({ skip }) => {
    plantBystander("sleep", ["3043"]);
    const other = await open(OTHER);
    const link = await started(other, "run_a", "sleep 1000");
    const { cgroup, cgroupInode } = link.welcome.boundary;
    if (cgroup === null || cgroupInode === null) {
      expect(await host.listRunCgroups(OTHER)).toEqual([]);
      link.stop(stop);
      await ended(link);
      return skip("there are no cgroups to be had here");
    }
    const boundary = { path: cgroup, inode: cgroupInode };
    expect(await host.listRunCgroups(OTHER)).toEqual([{ runId: "run_a", ...boundary }]);
    expect(await host.listRunCgroups("in_own")).toEqual([]);
    const file = JSON.parse(await readFile(join(directory(OTHER), "launcher.json"), "utf8")) as Record<
      string,
      string
    >;
    expect((await stat(join(directory(OTHER), "launcher.json"))).mode & 0o777).toBe(0o600);
    // Populated, although no process is in it directly.
    const above = { path: file["cgroup"] ?? "", inode: await inodeOf(file["cgroupDirectory"] ?? "") };
    const asked = [
      boundary,
      above,
      { path: `${cgroup}x`, inode: cgroupInode },
      { path: cgroup, inode: "1" },
      { path: `${cgroup}/../run_a`, inode: cgroupInode },
      { path: cgroup.slice(1), inode: cgroupInode },
      { path: `${cgroup}\n1`, inode: cgroupInode },
      { path: cgroup, inode: "x" },
      { path: `/${"x".repeat(5000)}`, inode: "1" },
    ];
    expect(await host.inspectCgroups(asked)).toEqual([
      ...["populated", "populated", "gone", "gone"],
      ...["unknown", "unknown", "unknown", "unknown", "unknown"],
    ]);
    process.env["HOLDFAST_ANCHOR_WEAKEN"] = "cgroup";
    onTestFinished(() => void delete process.env["HOLDFAST_ANCHOR_WEAKEN"]);
    expect(await host.inspectCgroups([boundary])).toEqual(["unknown"]);
    delete process.env["HOLDFAST_ANCHOR_WEAKEN"];
    link.stop(stop);
    await ended(link);
    expect(await host.inspectCgroups([boundary, above])).toEqual(["gone", "empty"]);
    expect(await host.inspectCgroups([])).toEqual([]);
  });

  test("are not claimed by a copy of its directory or under another name", async () => {
    const other = await open(OTHER);
    const link = await started(other, "run_a", "sleep 1000");
    const copied = await mkdtemp(join(tmpdir(), "hf-copy-"));
    onTestFinished(() => rm(copied, { recursive: true, force: true }));
    const file = join(directory(OTHER), "launcher.json");
    for (const path of [join(copied, "instances", OTHER), directory("in_third")]) {
      await mkdir(path, { recursive: true });
      await cp(file, join(path, "launcher.json"));
    }
    const there = { home: copied, instanceId: "in_there", incarnation: "one", machine };
    const elsewhere = await openNativeHost({ ...there, instanceDir: join(copied, "instances", "in_there") });
    expect(await elsewhere.listRunCgroups(OTHER)).toEqual([]);
    expect(await host.listRunCgroups("in_third")).toEqual([]);
    // Rewritten to match the directory, the file still names the cgroups of another instance.
    const { dev, ino } = await stat(directory("in_third"), { bigint: true });
    const said = {
      ...(JSON.parse(await readFile(file, "utf8")) as object),
      device: `${dev}`,
      inode: `${ino}`,
    };
    await writeFile(join(directory("in_third"), "launcher.json"), JSON.stringify(said));
    expect(await host.listRunCgroups("in_third")).toEqual([]);
    link.stop(stop);
    await ended(link);
  });
});

describe("removing an instance", () => {
  test("removes the directory of a dead instance without runs", async () => {
    const path = await deadInstance("in_dead");
    expect(await host.removeInstance("in_dead")).toBe(true);
    expect(existsSync(path)).toBe(false);
    expect(await host.removeInstance("in_dead")).toBe(true);
  });

  test("keeps this instance, a live one, one with runs, one with a launcher, and unknown files", async () => {
    expect(await host.removeInstance("in_own")).toBe(false);
    const live = await deadInstance("in_live");
    const lock = await acquireInstanceLock(live);
    onTestFinished(() => lock[Symbol.asyncDispose]());
    const full = await deadInstance("in_full");
    await mkdir(join(full, "runs", "run_a"));
    const unknown = await deadInstance("in_unknown");
    await writeFile(join(unknown, "notes.txt"), "mine");
    const launched = await open(LAUNCHED);
    await ended(await started(launched, "run_a", "exit 0"));
    await launched.removeRunDirectory({ instanceId: LAUNCHED, runId: "run_a" });
    await symlink(full, directory("in_link"));
    const ids = ["in_live", "in_full", "in_unknown", LAUNCHED, "in_link"];
    const before = await Promise.all(ids.map((id) => readdir(directory(id))));
    for (const id of ids) expect(await host.removeInstance(id), id).toBe(false);
    expect(await Promise.all(ids.map((id) => readdir(directory(id))))).toEqual(before);
  });

  test("removes the empty cgroups of a killed launcher", async ({ skip }) => {
    const other = await open(OTHER);
    const link = await started(other, "run_a", "sleep 1000");
    const file = await readFile(join(directory(OTHER), "launcher.json"), "utf8");
    const { pid, cgroupDirectory, limitDirectories } = JSON.parse(file) as {
      pid: number;
      cgroupDirectory: string | null;
      limitDirectories: readonly string[];
    };
    process.kill(pid, "SIGKILL");
    link.stop(stop);
    await ended(link);
    await other.removeRunDirectory({ instanceId: OTHER, runId: "run_a" });
    await waitFor(async () => (await host.listInstances()).every(({ launched }) => !launched));
    // As a killed anchor leaves them. A user without permission for cgroups has none.
    for (const path of limitDirectories)
      await mkdir(join(path, "run_b"), { recursive: true }).catch(() => {});
    if (cgroupDirectory !== null) {
      // A process that is still exiting.
      const late = spawn("sleep", ["3061"], { stdio: "ignore" });
      await writeFile(join(cgroupDirectory, "../sup/cgroup.procs"), String(late.pid));
      expect(await host.removeInstance(OTHER)).toBe(false);
      expect(existsSync(directory(OTHER))).toBe(true);
      late.kill("SIGKILL");
      await once(late, "exit");
    }
    expect(await host.removeInstance(OTHER)).toBe(true);
    expect(existsSync(directory(OTHER))).toBe(false);
    expect(limitDirectories.filter((path) => existsSync(path))).toEqual([]);
    if (cgroupDirectory === null) return skip("there are no cgroups to be had here");
    expect(existsSync(join(cgroupDirectory, ".."))).toBe(false);
  });
});

async function inodeOf(path: string): Promise<string> {
  return String((await stat(path, { bigint: true })).ino);
}
