import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../src/store/run-record.js";
import { Crowd } from "../tree/crowd.js";
import { look, signal, until } from "../tree/living.js";
import { nobody, root, Seat, tiers } from "../tree/seat.js";
import { Supervised } from "../tree/supervised.js";
import { cgroupOf, limitDirectories, whyNoLimits } from "./places.js";

const hog = fileURLToPath(new URL("children/hog.mjs", import.meta.url));
const MIB = 1024 ** 2;
/** More than a limit of 64 MiB, and little for any machine. */
const hogsCommand = [process.execPath, hog, "256"];
const INSTANCE = "tree";
const whyNot = whyNoLimits ?? tiers.cgroup.whyNot ?? root.whyNot;

async function ended(supervised: Supervised): Promise<RunRecord> {
  return (await supervised.hear("ended", 30_000)).record;
}

describe.skipIf(whyNot !== null)(`limits${whyNot === null ? "" : ` (${whyNot})`}`, () => {
  test("memory: who needs more is killed and says so; a bystander with as much lives", async () => {
    await using seat = Seat.take(root, tiers.cgroup);
    await using crowd = await Crowd.ofSleeper(seat);
    await using supervised = await Supervised.open(seat);
    await supervised.spawn({ io: "pipe", argv: hogsCommand }, { limits: { memoryBytes: 64 * MIB } });
    const limited = await ended(supervised);
    expect(limited).toMatchObject({
      limits: { memoryBytes: 64 * MIB, pids: null, cpus: null },
      exit: { reason: "signal", signal: "SIGKILL", limitHit: "memory" },
      emptiness: "proven",
      usage: { source: { cpu: "cgroup", memory: "cgroup" } },
    });
    expect(limited.usage?.peakKb).toBeLessThanOrEqual(64 * 1024);
    expect(limited.usage?.peakKb).toBeGreaterThan(48 * 1024);

    await supervised.spawn({ io: "pipe", argv: hogsCommand }, {});
    const free = await ended(supervised);
    expect(free).toMatchObject({ exit: { reason: "exit", code: 0, limitHit: null } });
    expect(supervised.output).toBe("took 256 MiB\n");
    expect(limitDirectories(seat.home, INSTANCE, limited.runId)).toEqual([]);
    await supervised.close();
    expect(crowd.missing(), "the bystander").toEqual([]);
  });

  test("pids: a storm of forks is refused more, ends, and the next run forks as it likes", async () => {
    await using seat = Seat.take(root, tiers.cgroup);
    await using crowd = await Crowd.ofSleeper(seat);
    await using supervised = await Supervised.open(seat);
    // At most sixty, whatever the limit does; a shell gives up at the first fork that is refused.
    const storm = "n=0; while [ $n -lt 60 ]; do sleep 1 & n=$((n+1)); echo $n; done; wait";
    await supervised.spawn({ io: "pipe", argv: ["sh", "-c", storm] }, { limits: { pids: 10 }, graceMs: 0 });
    const limited = await ended(supervised);
    expect(limited).toMatchObject({ exit: { reason: "exit", limitHit: "pids" }, emptiness: "proven" });
    expect(limited.exit?.code).not.toBe(0);
    expect(limited.usage?.peakTasks).toBe(10);
    await supervised.saw("9\n");
    expect(supervised.output).not.toContain("10\n");

    await supervised.spawn({ io: "pipe", argv: ["sh", "-c", storm] }, { graceMs: 0 });
    expect((await ended(supervised)).exit).toMatchObject({ reason: "exit", code: 0, limitHit: null });
    await supervised.close();
    expect(crowd.missing(), "the bystander").toEqual([]);
  });

  test("cpus: a spinner gets about its share of the time", async () => {
    await using seat = Seat.take(root, tiers.cgroup);
    await using supervised = await Supervised.open(seat);
    const spinner = ["timeout", "2", "sh", "-c", "while :; do :; done"];
    await supervised.spawn({ io: "pipe", argv: spinner }, { limits: { cpus: 0.2 } });
    const { usage, startedAt, endedAt, exit } = await ended(supervised);
    expect(exit).toMatchObject({ reason: "exit", code: 124, limitHit: null });
    const share = (usage?.cpuMs ?? 0) / ((endedAt ?? 0) - (startedAt ?? 0));
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.35);
    await supervised.close();
  });

  test("only the run is inside: not its anchor, its launcher or its supervisor", async () => {
    await using seat = Seat.take(root, tiers.cgroup);
    await using supervised = await Supervised.open(seat);
    const limits = { memoryBytes: 64 * MIB, pids: 20, cpus: 1 };
    const { record } = await supervised.spawn(
      { io: "pipe", argv: ["sh", "-c", "echo up; sleep 60"] },
      { limits },
    );
    await supervised.saw("up");
    const { runId, anchor, root: first } = record;
    const parent = look(anchor?.pid ?? 0)?.parentPid ?? 0;
    for (const controller of ["memory", "pids", "cpu"]) {
      expect(cgroupOf(first?.pid ?? 0, controller)).toContain(runId);
      for (const pid of [anchor?.pid ?? 0, parent])
        expect(cgroupOf(pid, controller)).toBe(cgroupOf(process.pid, controller));
    }
    expect(limitDirectories(seat.home, INSTANCE, runId)).toHaveLength(3);
    supervised.cancel({ graceMs: 0 });
    expect((await ended(supervised)).exit).toMatchObject({ reason: "manual-cancel", limitHit: null });
    await until("the directories are gone", () => limitDirectories(seat.home, INSTANCE, runId).length === 0);
    await supervised.close();
  });

  test("a limit outlives its supervisor, and the next one reads what it did", async () => {
    await using seat = Seat.take(root, tiers.cgroup);
    await using crowd = await Crowd.ofSleeper(seat);
    const go = join(seat.directory, "go");
    const script = `echo waiting; until [ -e ${go} ]; do sleep 0.05; done; exec ${hogsCommand.join(" ")}`;
    await using first = await Supervised.open(seat);
    await first.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { limits: { memoryBytes: 64 * MIB } });
    await first.saw("waiting");
    await first.kill();
    await using second = await Supervised.open(seat);
    second.order("recover");
    await second.hear("recovered");
    writeFileSync(go, "");
    expect(await ended(second)).toMatchObject({
      limits: { memoryBytes: 64 * MIB },
      exit: { reason: "signal", signal: "SIGKILL", limitHit: "memory", source: "anchor" },
    });
    await second.close();
    expect(crowd.missing(), "the bystander").toEqual([]);
  });

  test.for([["its anchor"], ["its anchor and launcher"]] as const)(
    "after SIGKILL of %s no directory of a limit is left",
    async ([whom]) => {
      await using seat = Seat.take(root, tiers.cgroup);
      await using crowd = await Crowd.ofSleeper(seat);
      await using supervised = await Supervised.open(seat);
      const limits = { memoryBytes: 64 * MIB, pids: 20, cpus: 1 };
      const { record } = await supervised.spawn(
        { io: "pipe", argv: ["sh", "-c", "echo up; sleep 60"] },
        { limits, graceMs: 0 },
      );
      await supervised.saw("up");
      const { runId, anchor } = record;
      expect(limitDirectories(seat.home, INSTANCE, runId)).toHaveLength(3);
      const launcher = look(look(anchor?.pid ?? 0)?.parentPid ?? 0);
      if (whom === "its anchor and launcher" && launcher !== null) signal(launcher, "SIGKILL");
      if (anchor !== null) signal(anchor, "SIGKILL");
      expect(await ended(supervised)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
      await until(
        "the directories are gone",
        () => limitDirectories(seat.home, INSTANCE, runId).length === 0,
      );
      const { events } = await supervised.list();
      expect(events.filter(({ type }) => type === "cleanup")).toMatchObject([{ data: { mode: "cgroup" } }]);
      // The next launcher clears away what a dead one left of its own cgroup.
      await supervised.spawn({ io: "pipe", argv: ["true"] }, {});
      await ended(supervised);
      await supervised.close();
      expect(crowd.missing(), "the bystander").toEqual([]);
    },
  );
});

describe("where a limit cannot be set, nothing runs and it is said", () => {
  const without = { ...tiers.cgroup, weaken: "controllers" };
  test.for([
    ["no controllers", root, without, /memory: neither .* nor a cgroup v1 hierarchy has this controller/],
    ["no cgroup", root, tiers.none, /memory: it needs a cgroup of the run's own: cgroup use is switched off/],
    ["an ordinary user, nothing delegated", nobody, tiers.asFound, /memory: .*(Permission denied|cgroup)/],
    [
      "an ordinary user with a cgroup but no controllers",
      nobody,
      tiers.cgroup,
      /memory: \/.*: Permission denied|memory: neither/,
    ],
  ] as const)("%s", async ([, user, tier, why], { skip }) => {
    const reason = user.whyNot ?? tier.whyNot;
    if (reason !== null) skip(reason);
    await using seat = Seat.take(user, tier);
    await using crowd = await Crowd.ofSleeper(seat);
    await using supervised = await Supervised.open(seat);
    const ran = join(seat.directory, "ran");
    supervised.order("spawn", {
      input: { io: "pipe", argv: ["touch", ran] },
      options: { limits: { memoryBytes: 64 * MIB } },
    });
    const { message } = await supervised.hear("failed");
    expect(message).toMatch(why);
    expect(message).toContain("the command did not run. Start it in a delegated subtree");
    expect(message).toContain("LimitUnavailable");
    expect(existsSync(ran)).toBe(false);
    const { runs } = await supervised.list();
    expect(runs).toMatchObject([
      { state: "exited", exit: { reason: "spawn-error" }, root: null, limits: { memoryBytes: 64 * MIB } },
    ]);
    await supervised.close();
    expect(crowd.missing(), "the bystander").toEqual([]);
  });
});

describe("usage", () => {
  const busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times";
  test.for([
    ["cgroup", tiers.cgroup],
    ["reaped", tiers.none],
  ] as const)("of a busy shell is what it counted itself, from %s", async ([source, tier], { skip }) => {
    const reason = root.whyNot ?? tier.whyNot;
    if (reason !== null) skip(reason);
    await using seat = Seat.take(root, tier);
    await using supervised = await Supervised.open(seat);
    // The work is done by a child that its parent waits for: it must not be lost, nor counted twice.
    await supervised.spawn({ io: "pipe", argv: ["sh", "-c", `sh -c '${busy}'; sleep 0.01`] }, {});
    const { usage } = await ended(supervised);
    await supervised.hear("silent");
    const own = cpuMsOf(supervised.output);
    expect(own).toBeGreaterThan(20);
    expect(usage?.cpuMs).toBeGreaterThanOrEqual(own * 0.8 - 20);
    expect(usage?.cpuMs).toBeLessThan(own * 1.5 + 200);
    expect(usage).toMatchObject({ source: { cpu: source, memory: "reaped" }, peakTasks: null });
    expect(usage?.peakKb).toBeGreaterThan(256);
    await supervised.close();
  });

  test("the peak of a hog without a limit is its own", async () => {
    await using seat = Seat.take(root, tiers.none);
    await using supervised = await Supervised.open(seat);
    await supervised.spawn({ io: "pipe", argv: hogsCommand }, {});
    const { usage } = await ended(supervised);
    expect(usage?.peakKb).toBeGreaterThan(256 * 1024);
    expect(usage?.peakKb).toBeLessThan(1024 * 1024);
    await supervised.close();
  });
});

/** `times` of a shell: its user and system time, in the first line. */
function cpuMsOf(text: string): number {
  const [, userMinutes, user, systemMinutes, system] = /^(\d+)m([\d.]+)s (\d+)m([\d.]+)s/m.exec(text) ?? [];
  return (Number(userMinutes) + Number(systemMinutes)) * 60_000 + (Number(user) + Number(system)) * 1000;
}
