import { existsSync, readdirSync, readlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { parseExit } from "../../../src/anchor/run-dir/parse-run-files.js";
import { CgroupFreezer, whyNoLimits } from "../../support/anchor/cgroups.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { plantBystander } from "../../support/bystander.js";
import { buildNativePrograms, whyNoCompiler } from "../../support/native-programs.js";
import { tiers } from "../../support/sandbox.js";
import { waitFor } from "../../support/wait-for.js";

const programs = buildNativePrograms("headless");
const STOP = encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "one", graceMs: 50 });
const ABANDON = encodeMessage("abandon", { actor: "cli:op", requestId: "give-up" });

/** The pids that a script prints first, one per line. */
async function printed(launcher: RawLauncher, stream: "stdout" | "stderr", count: number): Promise<number[]> {
  const lines = async () => (await launcher.output("run_a", stream)).split("\n").slice(0, -1);
  await waitFor(async () => (await lines()).length >= count);
  return (await lines()).map((line) => Number(/\d+/.exec(line)));
}

async function adopted(launcher: RawLauncher, owner: RawLink, pid: number): Promise<RawLink> {
  owner.send(await launcher.adoptFrame("run_b", pid));
  await owner.receive("adopted");
  return launcher.attach("run_b", 1);
}

async function exitOf(link: RawLink) {
  return parseExit((await link.receive("exited")).json);
}

test("a service that keeps writing to the old run's pipe cannot exceed the limit while the run drains", async () => {
  const KIB = 1024;
  const launcher = await RawLauncher.start();
  const owner = await launcher.run("run_a", "yes & echo $! >&2; read line", {
    outPolicy: 1,
    outBound: 64 * KIB,
  });
  const [writer = 0] = await printed(launcher, "stderr", 1);
  const service = await adopted(launcher, owner, writer);
  expect(await launcher.readRunFile("run_b", "anchor.json")).toMatchObject({ kind: "service" });
  owner.send(encodeMessage("closeStdin", { offset: 0 }));
  const exit = await exitOf(owner);
  expect(exit).toMatchObject({ reason: "exit", emptiness: "proven" });
  // The bytes in the pipe are kept beyond the limit; later ones are not.
  expect(exit?.stdout.end).toBeGreaterThan(64 * KIB);
  expect(exit?.stdout.end).toBeLessThanOrEqual((64 + 64) * KIB + 1);
  expect(await exitOf(service)).toMatchObject({ emptiness: "proven" });
});

const ways = [
  ["with cgroups", anchorEnvironment()],
  ["without cgroups", { ...anchorEnvironment(), HOLDFAST_ANCHOR_WEAKEN: "cgroup" }],
] as const;

for (const [way, env] of ways)
  test.skipIf(!CgroupFreezer.isAvailable)(
    `a process that was abandoned with its run does not become part of the service, ${way}`,
    async () => {
      plantBystander("sleep", ["3044"]);
      const launcher = await RawLauncher.start(env);
      await using freezer = new CgroupFreezer();
      const owner = await launcher.run("run_a", "sleep 3044 & echo $!; setsid sleep 3045 & echo $!; wait", {
        pty: 1,
        killReportMs: 100,
      });
      const [survivor = 0, chosen = 0] = await printed(launcher, "stdout", 2);
      const service = await adopted(launcher, owner, chosen);
      freezer.freeze(survivor);
      await freezer.frozen();
      owner.send(STOP);
      await owner.receive("survivors");
      owner.send(ABANDON);
      expect(await exitOf(owner)).toMatchObject({ emptiness: "unproven", residue: [{ pid: survivor }] });
      expect(await terminalsOf(service)).toEqual([]);
      service.send(STOP);
      expect(await exitOf(service)).toMatchObject({
        reason: "shutdown",
        emptiness: "proven",
        residueCount: 0,
      });
      expect(existsSync(`/proc/${survivor}`)).toBe(true);
    },
  );

describe.skipIf((tiers.cgroup.whyNot ?? whyNoCompiler) !== null)("refused, with nothing changed", () => {
  test("a process whose first thread has ended, because its cgroup would be ambiguous", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", `'${join(programs, "headless")}' 7 & wait`);
    const [headless = 0] = await printed(launcher, "stdout", 1);
    owner.send(await launcher.adoptFrame("run_b", headless));
    expect(await owner.receive("refused")).toMatchObject({
      codeName: "adopt-failed",
      message: expect.stringContaining("first thread"),
    });
    expect(existsSync(launcher.runDirectory("run_b"))).toBe(false);
    expect(existsSync(join(await runsCgroup(launcher), "run_a"))).toBe(true);
    expect(existsSync(join(await runsCgroup(launcher), "run_b"))).toBe(false);
    owner.send(STOP);
    expect(await exitOf(owner)).toMatchObject({ emptiness: "proven" });
  });

  test.skipIf(whyNoLimits !== null)("a process of a run that has limits", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "sleep 3046 & echo $!; wait", { pids: 20 });
    const [member = 0] = await printed(launcher, "stdout", 1);
    owner.send(await launcher.adoptFrame("run_b", member));
    expect(await owner.receive("refused")).toMatchObject({ codeName: "adopt-limited" });
    expect(existsSync(launcher.runDirectory("run_b"))).toBe(false);
    owner.send(STOP);
    expect(await exitOf(owner)).toMatchObject({ emptiness: "proven" });
  });
});

async function runsCgroup(launcher: RawLauncher): Promise<string> {
  const file = JSON.parse(await readFile(join(launcher.directory, "launcher.json"), "utf8")) as {
    readonly cgroupDirectory: string;
  };
  return file.cgroupDirectory;
}

/** The entries that the anchor of a run has open. */
async function terminalsOf(link: RawLink): Promise<string[]> {
  link.send(encodeMessage("status", {}));
  const { anchorPid } = await link.receive("welcome");
  const directory = `/proc/${anchorPid}/fd`;
  const targets = readdirSync(directory).map((fd) => readlinkSync(join(directory, fd)));
  return targets.filter((target) => /^\/dev\/(pts|ptmx)/.test(target));
}
