import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { parseExit } from "../../../src/anchor/run-dir/parse-run-files.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { plantBystander } from "../../support/bystander.js";
import {
  realSupervisor,
  shellInput,
  waitForOutput as textPrinted,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const STOP = encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "one", graceMs: 50 });
const STATUS = encodeMessage("status", {});
/** An anchor serves eight runs: the one it was started for, and seven adopted ones. */
const ADOPTED_MOST = 7;

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
}

/** The pids that the script of `run_a` printed, one per line. */
async function printedPids(launcher: RawLauncher, count: number): Promise<number[]> {
  const lines = async () => (await launcher.output("run_a")).split("\n").slice(0, -1);
  await waitFor(async () => (await lines()).length >= count);
  return (await lines()).map(Number);
}

async function exitOf(link: RawLink) {
  return parseExit((await link.receive("exited")).json);
}

/** Milliseconds of CPU that a process has used. */
function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function anchorOf(link: RawLink): Promise<number> {
  link.send(STATUS);
  return (await link.receive("welcome")).anchorPid;
}

const ways = [
  ["with cgroups", anchorEnvironment()],
  ["without cgroups", { ...anchorEnvironment(), HOLDFAST_ANCHOR_WEAKEN: "cgroup" }],
] as const;

/** Adopts one process after the other; each is adopted, or refused without any change. */
async function adoptMany(launcher: RawLauncher, owner: RawLink, pids: readonly number[]) {
  const services: RawLink[] = [];
  const refused: string[] = [];
  for (const pid of pids) {
    const runId = `run_b${services.length + refused.length}`;
    const heardBefore = owner.received.length;
    owner.send(await launcher.adoptFrame(runId, pid));
    const answer = () =>
      owner.received.slice(heardBefore).find(({ name }) => name === "adopted" || name === "refused");
    await waitFor(() => answer() !== undefined);
    const heard = answer();
    if (heard?.name === "refused") refused.push(heard.codeName);
    else services.push(await launcher.attach(runId, 1));
    for (const each of pids) expect(isAlive(each)).toBe(true);
  }
  return { services, refused };
}

for (const [way, env] of ways)
  describe(`an anchor with a low descriptor limit, ${way}`, () => {
    for (const limit of [48, 64, 80, 128])
      test(`at ${limit} descriptors loses nothing by adoptions, and refuses those it has no room for`, async () => {
        const bystander = plantBystander("sleep", ["3061"]);
        const launcher = await RawLauncher.start(env, `ulimit -n ${limit}`);
        const owner = await launcher.run(
          "run_a",
          `for i in $(seq ${ADOPTED_MOST}); do sleep 3061 >/dev/null 2>&1 & echo $!; done; read line`,
        );
        const pids = await printedPids(launcher, ADOPTED_MOST);
        const anchor = await anchorOf(owner);
        const { services, refused } = await adoptMany(launcher, owner, pids);
        expect(isAlive(anchor)).toBe(true);
        expect(refused.every((code) => code === "adopt-descriptors")).toBe(true);
        if (limit === 48) expect(refused.length).toBeGreaterThan(0);
        if (limit === 64) expect(services.length).toBeGreaterThanOrEqual(2);
        if (limit === 128) expect(services).toHaveLength(ADOPTED_MOST);
        // Each ends by its own STOP, and no other with it.
        for (const [at, service] of services.entries()) {
          service.send(STOP);
          expect(await exitOf(service)).toMatchObject({ reason: "shutdown", emptiness: "proven" });
          expect(pids.map(isAlive)).toEqual(pids.map((_, index) => index > at));
        }
        owner.send(STOP);
        expect(await exitOf(owner)).toMatchObject({ reason: "shutdown", emptiness: "proven" });
        expect(bystander.exitCode).toBeNull();
      });

    test("answers STOP while silent connections use up its descriptors, without spinning", async () => {
      plantBystander("sleep", ["3062"]);
      const launcher = await RawLauncher.start(env, "ulimit -n 64");
      const owner = await launcher.run(
        "run_a",
        `for i in $(seq ${ADOPTED_MOST}); do sleep 3062 >/dev/null 2>&1 & echo $!; done; read line`,
      );
      const pids = await printedPids(launcher, ADOPTED_MOST);
      const anchor = await anchorOf(owner);
      const { services } = await adoptMany(launcher, owner, pids);
      const runIds = ["run_a", ...services.map((_, at) => `run_b${at}`)];
      for (let round = 0; round < 20; round++) for (const runId of runIds) await launcher.connectTo(runId);
      const before = cpuMs(anchor);
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(cpuMs(anchor) - before).toBeLessThan(150);
      expect(readdirSync(`/proc/${anchor}/fd`).length).toBeLessThan(64);
      for (const runId of runIds.toReversed()) {
        const stopper = await launcher.attach(runId, 0);
        stopper.send(STOP);
        expect(await exitOf(stopper)).toMatchObject({ reason: "shutdown", emptiness: "proven" });
      }
      expect(pids.map(isAlive)).toEqual(pids.map(() => false));
    });

    test("ends a tree that has more processes than it has descriptors, and proves it empty", async () => {
      plantBystander("sleep", ["3063"]);
      const launcher = await RawLauncher.start(env, "ulimit -n 40");
      const owner = await launcher.run(
        "run_a",
        "for i in $(seq 150); do (trap '' TERM; sleep 3063 & sleep 3063) & done; echo ready; wait",
      );
      await waitFor(async () => (await launcher.output("run_a")).includes("ready"));
      owner.send(STOP);
      expect(await exitOf(owner)).toMatchObject({ reason: "shutdown", emptiness: "proven" });
    });
  });

test("a command keeps the descriptor limits of the launcher's parent; the anchor uses the hard limit", async () => {
  const launcher = await RawLauncher.start(anchorEnvironment(), "ulimit -Sn 77; ulimit -Hn 300");
  const owner = await launcher.run("run_a", "ulimit -Sn; ulimit -Hn; read line");
  expect(await printedPids(launcher, 2)).toEqual([77, 300]);
  const limits = readFileSync(`/proc/${await anchorOf(owner)}/limits`, "utf8");
  expect(limits).toMatch(/^Max open files\s+300\s+300/m);
  owner.send(STOP);
  await exitOf(owner);
});

test("a command is started under a soft limit that has no room for the anchor's own descriptors", async () => {
  const launcher = await RawLauncher.start(anchorEnvironment(), "ulimit -Sn 7");
  const owner = await launcher.run("run_a", "ulimit -Sn");
  expect(await printedPids(launcher, 1)).toEqual([7]);
  expect(await exitOf(owner)).toMatchObject({ reason: "exit", leader: { code: 0 } });
});

test("an anchor whose limit is lowered below its number of polled descriptors continues", async () => {
  plantBystander("sleep", ["3064"]);
  const launcher = await RawLauncher.start();
  const owner = await launcher.run("run_a", "echo $$; sleep 3064");
  const [leader = 0] = await printedPids(launcher, 1);
  const anchor = await anchorOf(owner);
  setSoftLimit(anchor, 2);
  expect(await anchorOf(owner)).toBe(anchor);
  const before = cpuMs(anchor);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(cpuMs(anchor) - before).toBeLessThan(150);
  expect(isAlive(leader)).toBe(true);
  setSoftLimit(anchor, 200);
  owner.send(STOP);
  expect(await exitOf(owner)).toMatchObject({ reason: "shutdown", emptiness: "proven" });
});

function setSoftLimit(pid: number, soft: number): void {
  execFileSync("prlimit", ["--pid", String(pid), `--nofile=${soft}:`]);
}

test("the launcher does not spin when it can accept no more connections", async () => {
  const launcher = await RawLauncher.start(anchorEnvironment(), "ulimit -n 24");
  for (let round = 0; round < 40; round++) await launcher.connect();
  const before = cpuMs(launcher.pid);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(cpuMs(launcher.pid) - before).toBeLessThan(150);
});

test("a supervisor gets the reason why its anchor adopts no more processes", async () => {
  plantBystander("sleep", ["3065"]);
  const supervisor = await realSupervisor();
  // The launcher gets its low limit after its start; its later anchors inherit it.
  const first = await supervisor.spawn(shellInput("read line"));
  const anchor = (await supervisor.getRun(first.runId))?.anchor?.pid ?? 0;
  const [, launcher = ""] = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${anchor}/status`, "utf8")) ?? [];
  execFileSync("prlimit", ["--pid", launcher, "--nofile=40:40"]);
  await first.closeStdin();
  const run = await supervisor.spawn(
    shellInput("for i in 1 2 3 4 5 6 7; do sleep 3065 >/dev/null 2>&1 & echo $!; done; echo ready; wait"),
  );
  await textPrinted(run, "ready");
  const { bytes } = await run.read("stdout", { offset: 0 });
  const pids = Buffer.from(bytes).toString().split("\n").slice(0, 7).map(Number);
  const answers: string[] = [];
  for (const pid of pids)
    answers.push(
      await supervisor.adoptProcess(pid).then(
        () => "adopted",
        (error: unknown) => String(error),
      ),
    );
  expect(answers.at(-1)).toMatch(/nothing was changed: .*descriptor limit of 40/);
  for (const pid of pids) expect(isAlive(pid)).toBe(true);
});
