import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { cgroupOfProcess, limitCgroups, whyNoLimits } from "../../support/anchor/cgroups.js";
import { readProcess, signalProcess } from "../../support/live-processes.js";
import { nobodyUser, rootUser, Sandbox, tiers } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { TokenProcesses } from "../../support/supervisor/token-processes.js";
import { waitFor } from "../../support/wait-for.js";

const hog = fileURLToPath(new URL("children/hog.mjs", import.meta.url));
const MIB = 1024 ** 2;
/** More than a limit of 64 MiB, and little for any machine. */
const hogsCommand = [process.execPath, hog, "256"];
const INSTANCE = "tree";
const whyNot = whyNoLimits ?? tiers.cgroup.whyNot ?? rootUser.whyNot;

async function ended(libraryProcess: LibraryProcess): Promise<RunRecord> {
  return (await libraryProcess.receive("ended", 30_000)).record;
}

describe.skipIf(whyNot !== null)(`limits${whyNot === null ? "" : ` (${whyNot})`}`, () => {
  test("memory: a run over its limit is killed, and its record says so; a bystander that uses as much is not killed", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    await libraryProcess.spawn({ io: "pipe", argv: hogsCommand }, { limits: { memoryBytes: 64 * MIB } });
    const limited = await ended(libraryProcess);
    expect(limited).toMatchObject({
      limits: { memoryBytes: 64 * MIB, pids: null, cpus: null },
      exit: { reason: "signal", signal: "SIGKILL", limitHit: "memory" },
      emptiness: "proven",
      usage: { source: { cpu: "cgroup", memory: "cgroup" } },
    });
    expect(limited.usage?.peakKb).toBeLessThanOrEqual(64 * 1024);
    expect(limited.usage?.peakKb).toBeGreaterThan(48 * 1024);

    await libraryProcess.spawn({ io: "pipe", argv: hogsCommand }, {});
    const free = await ended(libraryProcess);
    expect(free).toMatchObject({ exit: { reason: "exit", code: 0, limitHit: null } });
    expect(libraryProcess.output).toBe("took 256 MiB\n");
    expect(limitCgroups(sandbox.home, INSTANCE, limited.runId)).toEqual([]);
    await libraryProcess.close();
    expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  });

  test("pids: a fork storm gets no more processes, ends, and the next run can fork", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    // At most sixty, whatever the limit does; a shell gives up at the first fork that is refused.
    const storm = "n=0; while [ $n -lt 60 ]; do sleep 1 & n=$((n+1)); echo $n; done; wait";
    await libraryProcess.spawn(
      { io: "pipe", argv: ["sh", "-c", storm] },
      { limits: { pids: 10 }, graceMs: 0 },
    );
    const limited = await ended(libraryProcess);
    expect(limited).toMatchObject({ exit: { reason: "exit", limitHit: "pids" }, emptiness: "proven" });
    expect(limited.exit?.code).not.toBe(0);
    expect(limited.usage?.peakTasks).toBe(10);
    await libraryProcess.waitForOutput("9\n");
    expect(libraryProcess.output).not.toContain("10\n");

    await libraryProcess.spawn({ io: "pipe", argv: ["sh", "-c", storm] }, { graceMs: 0 });
    expect((await ended(libraryProcess)).exit).toMatchObject({ reason: "exit", code: 0, limitHit: null });
    await libraryProcess.close();
    expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  });

  test("cpus: a spinner gets about its share of the time", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    const spinner = ["timeout", "2", "sh", "-c", "while :; do :; done"];
    await libraryProcess.spawn({ io: "pipe", argv: spinner }, { limits: { cpus: 0.2 } });
    const { usage, startedAt, endedAt, exit } = await ended(libraryProcess);
    expect(exit).toMatchObject({ reason: "exit", code: 124, limitHit: null });
    const share = (usage?.cpuMs ?? 0) / ((endedAt ?? 0) - (startedAt ?? 0));
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.35);
    await libraryProcess.close();
  });

  test("limits apply to the run only, not to its anchor, launcher or supervisor", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    const limits = { memoryBytes: 64 * MIB, pids: 20, cpus: 1 };
    const { record } = await libraryProcess.spawn(
      { io: "pipe", argv: ["sh", "-c", "echo up; sleep 60"] },
      { limits },
    );
    await libraryProcess.waitForOutput("up");
    const { runId, anchor, root: first } = record;
    const parent = readProcess(anchor?.pid ?? 0)?.parentPid ?? 0;
    for (const controller of ["memory", "pids", "cpu"]) {
      expect(cgroupOfProcess(first?.pid ?? 0, controller)).toContain(runId);
      for (const pid of [anchor?.pid ?? 0, parent])
        expect(cgroupOfProcess(pid, controller)).toBe(cgroupOfProcess(process.pid, controller));
    }
    expect(limitCgroups(sandbox.home, INSTANCE, runId)).toHaveLength(3);
    libraryProcess.cancel({ graceMs: 0 });
    expect((await ended(libraryProcess)).exit).toMatchObject({ reason: "manual-cancel", limitHit: null });
    await waitFor("the directories are gone", () => limitCgroups(sandbox.home, INSTANCE, runId).length === 0);
    await libraryProcess.close();
  });

  test("a limit continues without its supervisor, and the next supervisor reads whether it was hit", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    const go = join(sandbox.directory, "go");
    const script = `echo waiting; until [ -e ${go} ]; do sleep 0.05; done; exec ${hogsCommand.join(" ")}`;
    await using first = await LibraryProcess.open(sandbox);
    await first.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { limits: { memoryBytes: 64 * MIB } });
    await first.waitForOutput("waiting");
    await first.kill();
    await using second = await LibraryProcess.open(sandbox);
    second.order("recover");
    await second.receive("recovered");
    writeFileSync(go, "");
    expect(await ended(second)).toMatchObject({
      limits: { memoryBytes: 64 * MIB },
      exit: { reason: "signal", signal: "SIGKILL", limitHit: "memory", source: "anchor" },
    });
    await second.close();
    expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  });

  test.for([["its anchor"], ["its anchor and launcher"]] as const)(
    "after SIGKILL of %s no directory of a limit is left",
    async ([whom]) => {
      await using sandbox = Sandbox.create(rootUser, tiers.cgroup);
      await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
      await using libraryProcess = await LibraryProcess.open(sandbox);
      const limits = { memoryBytes: 64 * MIB, pids: 20, cpus: 1 };
      const { record } = await libraryProcess.spawn(
        { io: "pipe", argv: ["sh", "-c", "echo up; sleep 60"] },
        { limits, graceMs: 0 },
      );
      await libraryProcess.waitForOutput("up");
      const { runId, anchor } = record;
      expect(limitCgroups(sandbox.home, INSTANCE, runId)).toHaveLength(3);
      const launcher = readProcess(readProcess(anchor?.pid ?? 0)?.parentPid ?? 0);
      if (whom === "its anchor and launcher" && launcher !== null) signalProcess(launcher, "SIGKILL");
      if (anchor !== null) signalProcess(anchor, "SIGKILL");
      expect(await ended(libraryProcess)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
      await waitFor(
        "the directories are gone",
        () => limitCgroups(sandbox.home, INSTANCE, runId).length === 0,
      );
      const { events } = await libraryProcess.list();
      expect(events.filter(({ type }) => type === "cleanup")).toMatchObject([{ data: { mode: "cgroup" } }]);
      // The next launcher clears away what a dead one left of its own cgroup.
      await libraryProcess.spawn({ io: "pipe", argv: ["true"] }, {});
      await ended(libraryProcess);
      await libraryProcess.close();
      expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
    },
  );
});

describe("where a limit cannot be set, nothing is started and the reason is reported", () => {
  const without = { ...tiers.cgroup, weaken: "controllers" };
  test.for([
    ["no controllers", rootUser, without, /memory: neither .* nor a cgroup v1 hierarchy has this controller/],
    ["no cgroup", rootUser, tiers.none, /memory: it needs the run's own cgroup: cgroups are disabled/],
    [
      "an ordinary user, nothing delegated",
      nobodyUser,
      tiers.asFound,
      /memory: .*(Permission denied|cgroup)/,
    ],
    [
      "an ordinary user with a cgroup but no controllers",
      nobodyUser,
      tiers.cgroup,
      /memory: \/.*: Permission denied|memory: neither/,
    ],
  ] as const)("%s", async ([, user, tier, why], { skip }) => {
    const reason = user.whyNot ?? tier.whyNot;
    if (reason !== null) skip(reason);
    await using sandbox = Sandbox.create(user, tier);
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    const ran = join(sandbox.directory, "ran");
    libraryProcess.order("spawn", {
      input: { io: "pipe", argv: ["touch", ran] },
      options: { limits: { memoryBytes: 64 * MIB } },
    });
    const { message } = await libraryProcess.receive("failed");
    expect(message).toMatch(why);
    expect(message).toContain("the command did not run. Start it in a delegated subtree");
    expect(message).toContain("LimitUnavailable");
    expect(existsSync(ran)).toBe(false);
    const { runs } = await libraryProcess.list();
    expect(runs).toMatchObject([
      { state: "exited", exit: { reason: "spawn-error" }, root: null, limits: { memoryBytes: 64 * MIB } },
    ]);
    await libraryProcess.close();
    expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  });
});

describe("usage", () => {
  const busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times";
  test.for([
    ["cgroup", tiers.cgroup],
    ["reaped", tiers.none],
  ] as const)("of a busy shell is what it counted itself, from %s", async ([source, tier], { skip }) => {
    const reason = rootUser.whyNot ?? tier.whyNot;
    if (reason !== null) skip(reason);
    await using sandbox = Sandbox.create(rootUser, tier);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    // The work is done by a child that its parent waits for: it must not be lost, nor counted twice.
    await libraryProcess.spawn({ io: "pipe", argv: ["sh", "-c", `sh -c '${busy}'; sleep 0.01`] }, {});
    const { usage } = await ended(libraryProcess);
    await libraryProcess.receive("silent");
    const own = cpuMsOf(libraryProcess.output);
    expect(own).toBeGreaterThan(20);
    expect(usage?.cpuMs).toBeGreaterThanOrEqual(own * 0.8 - 20);
    expect(usage?.cpuMs).toBeLessThan(own * 1.5 + 200);
    expect(usage).toMatchObject({ source: { cpu: source, memory: "reaped" }, peakTasks: null });
    expect(usage?.peakKb).toBeGreaterThan(256);
    await libraryProcess.close();
  });

  test("the recorded peak memory of a run without a limit includes only its own processes", async () => {
    await using sandbox = Sandbox.create(rootUser, tiers.none);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    await libraryProcess.spawn({ io: "pipe", argv: hogsCommand }, {});
    const { usage } = await ended(libraryProcess);
    expect(usage?.peakKb).toBeGreaterThan(256 * 1024);
    expect(usage?.peakKb).toBeLessThan(1024 * 1024);
    await libraryProcess.close();
  });
});

/** `times` of a shell: its user and system time, in the first line. */
function cpuMsOf(text: string): number {
  const [, userMinutes, user, systemMinutes, system] = /^(\d+)m([\d.]+)s (\d+)m([\d.]+)s/m.exec(text) ?? [];
  return (Number(userMinutes) + Number(systemMinutes)) * 60_000 + (Number(user) + Number(system)) * 1000;
}
