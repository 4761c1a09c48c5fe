import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { isAlive } from "../../support/live-processes.js";
import { scaled } from "../../support/scale.js";
import { currentUser, nobodyUser, rootUser, tiers } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { signalRecorded } from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";
import { child, graceMs, TreeFixture } from "./tree-fixture.js";

describe.concurrent("a run whose supervision fails", () => {
  for (const tier of [tiers.cgroup, tiers.none])
    test(`SIGKILL of the anchor in the grace after a cancel, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using tree = await TreeFixture.open(currentUser, tier);
      const { record } = await tree.playScenario();
      tree.library.cancel({ graceMs: 60_000, actor: "test:me" });
      await waitFor("only the process that ignores TERM is left", () => tree.processes.ofRuns().length === 1);
      // The anchor records its status before it reaps it.
      await waitFor("the leader is reaped", () => !existsSync(`/proc/${record.root?.pid}`));
      signalRecorded(record.anchor, "SIGKILL");
      const ended = await tree.ends();
      expect(ended.exit).toMatchObject({ reason: "lost", actor: "test:me", signal: "SIGTERM" });
    });

  test("SIGKILL of the launcher: the anchor continues, and the record says so", async () => {
    await using tree = await TreeFixture.open(currentUser, tiers.none);
    await tree.playScenario();
    tree.killLaunchers();
    await waitFor("the launcher is gone", () => tree.launchers().length === 0);
    tree.library.cancel({});
    const ended = await tree.ends();
    expect(ended.exit).toMatchObject({ reason: "manual-cancel" });
    expect(ended.tier).not.toContain("launcher");
    expect(ended.boundary?.note).toContain("launcher");
  });

  test("SIGKILL of launcher and anchor: with a cgroup, the tree is found and killed", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using tree = await TreeFixture.open(currentUser, tiers.cgroup);
    const { record } = await tree.playScenario();
    tree.killLaunchers();
    signalRecorded(record.anchor, "SIGKILL");
    const ended = (await tree.library.receive("ended")).record;
    expect(tree.processes.ofRuns(), "survivors").toEqual([]);
    expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
    // The next launcher removes the cgroup that the dead one left.
    await tree.library.spawn({ io: "pipe", argv: ["true"] }, {});
    expect((await tree.ends()).exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("SIGKILL of launcher and anchor: without a cgroup, the end is unproven", async () => {
    await using tree = await TreeFixture.open(currentUser, tiers.none);
    const { record } = await tree.playScenario();
    tree.killLaunchers();
    signalRecorded(record.anchor, "SIGKILL");
    const ended = (await tree.library.receive("ended")).record;
    expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
    // All descendants of the recorded root were verified and killed; only the daemon's ancestors were gone before.
    const names = tree.processes.ofRuns().map(({ argv }) => argv.join(" "));
    expect(names.filter((name) => name !== `sleep 100004.${tree.processes.token}`)).toEqual([]);
    await tree.library.close();
  });

  test("SIGKILL of launcher and anchor: a process that left the cgroup makes the end unproven", async ({
    skip,
  }) => {
    const whyNot = rootUser.whyNot ?? tiers.cgroup.whyNot;
    if (whyNot !== null) skip(whyNot);
    await using tree = await TreeFixture.open(rootUser, tiers.cgroup);
    const argv = [child("migrant.sh"), tree.processes.token, tree.sandbox.cgroup ?? ""];
    const { record } = await tree.library.spawn({ io: "pipe", argv }, { graceMs });
    const migrant = await waitFor("it has moved", () => tree.sleepers()[0]);
    tree.killLaunchers();
    signalRecorded(record.anchor, "SIGKILL");
    const ended = (await tree.library.receive("ended")).record;
    expect({ alive: isAlive(migrant), emptiness: ended.emptiness }).not.toEqual({
      alive: true,
      emptiness: "proven",
    });
    await tree.library.spawn({ io: "pipe", argv: ["true"] }, {});
    await tree.library.receive("ended");
    await tree.library.close();
  });

  test("a run of a stopped supervisor ends", async () => {
    await using tree = await TreeFixture.open(currentUser, tiers.none);
    const timeoutMs = scaled(1_500);
    await tree.playScenario({ timeoutMs });
    tree.library.signal("SIGSTOP");
    await tree.processes.waitUntilGone(timeoutMs + defaults.backstopMs + graceMs + 5_000);
    tree.library.signal("SIGCONT");
    const ended = await tree.ends();
    expect(ended.exit).toMatchObject({ reason: "overall-timeout", actor: "anchor", signal: "SIGTERM" });
  });

  for (const [reason, option] of [
    ["overall-timeout", "timeoutMs"],
    ["no-output-timeout", "noOutputTimeoutMs"],
  ] as const)
    test(`without a supervisor the anchor keeps the ${reason}`, async () => {
      const user = nobodyUser.whyNot === null ? nobodyUser : currentUser;
      await using tree = await TreeFixture.open(user, tiers.none);
      const timeoutMs = scaled(1_500);
      await tree.playScenario({ [option]: timeoutMs, ownerLossMs: 10 * timeoutMs });
      await tree.library.kill();
      await tree.processes.waitUntilGone(timeoutMs + 10_000);
      await using successor = await LibraryProcess.open(tree.sandbox);
      successor.order("recover");
      await successor.receive("recovered");
      const { runs } = await successor.list();
      expect(runs).toHaveLength(1);
      expect(runs[0]).toMatchObject({ emptiness: "proven", exit: { reason, actor: "anchor" } });
      await successor.close();
    });
});
