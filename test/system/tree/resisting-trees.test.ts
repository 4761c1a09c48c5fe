import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import type { LiveProcess } from "../../support/live-processes.js";
import { buildNativePrograms, whyNoCompiler } from "../../support/native-programs.js";
import { repetitions, soak } from "../../support/scale.js";
import { currentUser, rootUser, tiers } from "../../support/sandbox.js";
import { signalRecorded } from "../../support/supervisor/shared-home.js";
import { scenarioScript } from "../../support/supervisor/token-processes.js";
import { waitFor } from "../../support/wait-for.js";
import { child, graceMs, TreeFixture } from "./tree-fixture.js";

/** Limit of the supervisor, its launcher and its anchors. */
const DESCRIPTORS = repetitions(96, 256);

const programs = buildNativePrograms("hop", "headless");

describe.concurrent("a tree that resists", () => {
  // Not without pidfds: then only direct children are signalled, and deeper processes are killed as they become children.
  for (const tier of [tiers.cgroup, tiers.none])
    test(`every process gets TERM before KILL, stopped ones too, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using tree = await TreeFixture.open(currentUser, tier);
      await tree.library.spawn({ io: "pipe", argv: [child("goodbye.sh"), tree.processes.token] }, {});
      const roles = ["leader", "child", "session", "stopped", "daemon"];
      for (const role of roles) await tree.library.waitForOutput(`here ${role}`);
      await waitFor("the stopped one is stopped", () =>
        tree.processes.ofRuns().some(({ state }) => state === "T"),
      );
      // Long enough that none of them is killed.
      tree.library.cancel({ graceMs: 10_000 });
      const record = await tree.ends();
      expect(record).toMatchObject({ exit: { reason: "manual-cancel", code: 0 }, residueCount: 0 });
      expect(new Set(Array.from(tree.library.output.matchAll(/bye (\w+)/g), ([, role]) => role))).toEqual(
        new Set(roles),
      );
    });

  for (const tier of [tiers.cgroup, tiers.none, tiers.noPidfd])
    test(`a process that answers TERM with new daemons, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using tree = await TreeFixture.open(currentUser, tier);
      await tree.library.spawn({ io: "pipe", argv: [child("hydra.sh"), tree.processes.token] }, { graceMs });
      await tree.library.waitForOutput("another");
      tree.library.cancel({});
      const record = await tree.ends();
      expect(record).toMatchObject({ exit: { reason: "manual-cancel", signal: "SIGKILL" } });
    });

  for (const tier of [tiers.cgroup, tiers.none])
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test.runIf(soak || (end === "cancel") === (tier === tiers.none))(
        `a PID namespace within, after ${end}, tier ${tier.name}`,
        async ({ skip }) => {
          const whyNot = rootUser.whyNot ?? tier.whyNot;
          if (whyNot !== null) skip(whyNot);
          if (spawnSync("unshare", ["--pid", "--fork", "true"]).status !== 0) skip("no PID namespaces here");
          await using tree = await TreeFixture.open(rootUser, tier);
          // The kernel ignores a TERM without a handler for the first process of a namespace.
          const script = `sleep 100001.${tree.processes.token} & setsid sleep 100002.${tree.processes.token} & wait`;
          const argv = ["unshare", "--pid", "--fork", "sh", "-c", script];
          const { record } = await tree.library.spawn({ io: "pipe", argv }, { graceMs });
          await waitFor("both sleep", () => tree.sleepers().length === 2);
          if (end === "cancel") tree.library.cancel({});
          else signalRecorded(record.anchor, "SIGKILL");
          await tree.ends();
        },
      );

  for (const tier of [tiers.cgroup, tiers.none])
    for (const place of ["the leader", "a child"] as const)
      test.runIf(soak || (place === "a child") === (tier === tiers.none))(
        `${place} whose first thread has ended, tier ${tier.name}`,
        async ({ skip }) => {
          const whyNot = tier.whyNot ?? whyNoCompiler;
          if (whyNot !== null) skip(whyNot);
          await using tree = await TreeFixture.open(currentUser, tier);
          const headless = [join(programs, "headless"), tree.processes.token];
          const argv =
            place === "the leader" ? headless : ["sh", "-c", '"$@" & read -r _', "sh", ...headless];
          await tree.library.spawn({ io: "pipe", argv }, { graceMs });
          await tree.library.waitForOutput(/headless \d+/);
          const pid = Number(/headless (\d+)/.exec(tree.library.output)?.[1]);
          await waitFor("it looks dead", () => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8")));
          expect(threads(pid)).toBe(2);
          tree.library.cancel({});
          await tree.ends();
          expect(threads(pid)).toBe(0);
        },
      );

  for (const tier of [tiers.cgroup, tiers.none])
    test(`a run within a run, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using tree = await TreeFixture.open(currentUser, tier);
      const inner = [process.execPath, resolve("dist/cli/main.js"), "run", "--in-process"];
      const argv = [...inner, "--", "sh", scenarioScript, tree.processes.token];
      await tree.library.spawn({ io: "pipe", argv }, { graceMs });
      await waitFor("all of it is there", () => tree.sleepers().length === 4);
      expect(tree.launchers()).toHaveLength(2);
      tree.library.cancel({});
      // The inner launcher and anchor are processes of the run like any other.
      await tree.ends(() => expect(tree.launchers()).toHaveLength(1));
    });

  test("more processes than file descriptors", async () => {
    await using tree = await TreeFixture.open(currentUser, tiers.none, [
      "prlimit",
      `--nofile=${DESCRIPTORS}`,
    ]);
    const script = `trap '' TERM; for i in $(seq ${2 * DESCRIPTORS}); do sleep 100001.${tree.processes.token} & done; read -r _`;
    await tree.library.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { graceMs });
    await waitFor("all of them sleep", () => tree.sleepers().length === 2 * DESCRIPTORS);
    tree.library.cancel({});
    const record = await tree.ends();
    expect(record.usage?.processes).toBeGreaterThan(2 * DESCRIPTORS);
  });

  for (const end of ["exit", "cancel", "SIGKILL of the anchor"] as const)
    test(`a process that moved to another cgroup, after ${end}`, async ({ skip }) => {
      const whyNot = rootUser.whyNot ?? tiers.cgroup.whyNot;
      if (whyNot !== null) skip(whyNot);
      await using tree = await TreeFixture.open(rootUser, tiers.cgroup);
      const argv = [child("migrant.sh"), tree.processes.token, tree.sandbox.cgroup ?? ""];
      const { record } = await tree.library.spawn({ io: "pipe", argv }, { graceMs });
      const migrant = await waitFor("it has moved", () => tree.sleepers()[0]);
      expect(cgroupOf(migrant)).not.toContain(record.runId);
      if (end === "cancel") tree.library.cancel({});
      else if (end === "exit") tree.library.write("5\n");
      else signalRecorded(record.anchor, "SIGKILL");
      const ended = await tree.ends();
      if (end !== "exit") return;
      expect(ended.exit).toMatchObject({ reason: "ownership-escape", code: 5 });
      expect(ended.residue).toEqual([expect.objectContaining({ pid: migrant.pid, kind: "migrated" })]);
    });
});

/** A process that is found has already ended, and its successor is not found yet: only the subreaper sees all of them. */
describe("processes that replace themselves by forking", () => {
  const rounds = repetitions(1, 5);
  for (const [tier, hoppers] of [
    [tiers.cgroup, 3],
    [tiers.none, 3],
    [tiers.noPidfd, 3],
    [tiers.noChildren, 1],
  ] as const)
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test(`are caught after ${end}, ${rounds} times, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = tier.whyNot ?? whyNoCompiler;
        if (whyNot !== null) skip(whyNot);
        await using tree = await TreeFixture.open(currentUser, tier);
        for (let round = 0; round < rounds; round++) {
          const argv = [join(programs, "hop"), tree.processes.token, String(hoppers)];
          const { record } = await tree.library.spawn({ io: "pipe", argv }, {});
          await waitFor("it hops", () => tree.library.output.match(/hopping/g)?.length === round + 1);
          if (end === "cancel") tree.library.cancel({ graceMs: 0 });
          else signalRecorded(record.anchor, "SIGKILL");
          const ended = (await tree.library.receive("ended")).record;
          expect(ended).toMatchObject({ state: "exited", emptiness: "proven" });
          // One listing may fall between two of them.
          const seen = Array.from({ length: 30 }, () => tree.processes.ofRuns()).flat();
          expect(seen, `survivors of round ${round}`).toEqual([]);
        }
      });
});

function cgroupOf({ pid }: LiveProcess): string {
  return readFileSync(`/proc/${pid}/cgroup`, "utf8");
}

function threads(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`).length;
  } catch {
    return 0;
  }
}
