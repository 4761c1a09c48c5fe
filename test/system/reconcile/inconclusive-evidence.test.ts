import { chmodSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  orphanScenario,
  SharedHome,
} from "../../support/supervisor/shared-home.js";

/** Replaces the anchor binary of this home by one that cannot inspect processes. */
function blind(sharedHome: SharedHome): () => void {
  const directory = join(sharedHome.home, "bin");
  const [name] = readdirSync(directory);
  const path = join(directory, name ?? "");
  renameSync(path, `${path}.kept`);
  writeFileSync(path, "#!/bin/sh\nexit 1\n");
  chmodSync(path, 0o700);
  return () => renameSync(`${path}.kept`, path);
}

describe.concurrent("when processes cannot be inspected", () => {
  const situations: readonly { name: string; tier: SandboxTier; row: string }[] = [
    { name: "a run with a dead anchor", tier: tiers.none, row: "root-alive" },
    { name: "a run with a dead anchor and a cgroup", tier: tiers.cgroup, row: "root-alive" },
  ];
  for (const { name, tier, row } of situations)
    test(`${name} is neither signalled nor ended until they can be inspected again`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const runId = await orphanScenario(sharedHome, { onOrphan: "terminate" });
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      const next = await sharedHome.supervisor(NEXT_INSTANCE);
      const before = sharedHome.survivors();
      const see = blind(sharedHome);
      const { decisions } = await next.reconcile();
      expect(decisions).toMatchObject([{ runId, row: "unseen", action: "leave" }]);
      expect(sharedHome.survivors()).toEqual(before);
      expect(await next.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: FIRST_INSTANCE });
      const once = sharedHome.dumpStore();
      await next.reconcile();
      expect(sharedHome.dumpStore()).toEqual(once);
      expect(sharedHome.problems).toMatchObject([{ runId }]);

      see();
      expect((await next.reconcile()).decisions).toMatchObject([{ runId, row }]);
      await sharedHome.ended(runId);
      expect(sharedHome.reconcileDecisions(runId).map((each) => each.row)).toEqual(["unseen", row]);
      // Without a cgroup, a daemon without a marker cannot be found.
      if (tier === tiers.none) {
        expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(1);
        await sharedHome.killStrays();
      } else await sharedHome.tokenProcesses.waitUntilGone(5_000);
      await sharedHome.stopAllRuns(next);
    });

  test("a run whose anchor answers to its key is continued", async () => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const runId = await orphanScenario(sharedHome, { onOrphan: "adopt" });
    const next = await sharedHome.supervisor(NEXT_INSTANCE);
    const before = sharedHome.survivors();
    const see = blind(sharedHome);
    expect((await next.reconcile()).decisions).toMatchObject([
      { runId, row: "anchor-alive", action: "adopt" },
    ]);
    expect(sharedHome.survivors()).toEqual(before);
    expect(await next.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: NEXT_INSTANCE });
    see();
    await next.run(runId)?.cancel();
    await sharedHome.ended(runId);
    await sharedHome.tokenProcesses.waitUntilGone(5_000);
    await sharedHome.stopAllRuns(next);
  });
});

test.concurrent("a sweep during which processes cannot be inspected is finished later", async ({ skip }) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  await using sharedHome = await SharedHome.open(tiers.cgroup);
  const runId = await orphanScenario(sharedHome);
  await sharedHome.stopAnchors(FIRST_INSTANCE);
  const next = await sharedHome.supervisorProcess(NEXT_INSTANCE);
  await next.pauseAt("reaping");
  next.order("reconcile", { scope: {} });
  await next.waitUntilPaused();
  const before = sharedHome.survivors();
  const see = blind(sharedHome);
  next.resume();
  await next.receive("reconciled");
  expect((await next.receive("problem")).message).toContain("its state cannot be determined yet");
  expect(sharedHome.survivors()).toEqual(before);
  expect(sharedHome.column(runId, "state")).toBe("running");
  see();
  await sharedHome.ended(runId);
  expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
  expect(sharedHome.sql("select * from runs")).toMatchObject([{ exit_reason: "lost", emptiness: "proven" }]);
  expect(sharedHome.reconcileDecisions(runId)).toHaveLength(1);
  await next.close();
  await sharedHome.stopAllRuns(await sharedHome.supervisor("in_tidy"));
});
