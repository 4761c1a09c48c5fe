import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { recordLocation } from "../../../src/home/state-location.js";
import { tiers } from "../../support/sandbox.js";
import { FIRST_INSTANCE, ORPHAN_GRACE_MS, SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";

describe.concurrent("a copied state directory", () => {
  for (const tier of [tiers.none, tiers.cgroup])
    test(`its gateway touches none of the original's live runs: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
      await recordLocation(sharedHome.home);
      writeFileSync(join(sharedHome.home, "gateway-id"), `${FIRST_INSTANCE}\n`, { mode: 0o600 });
      const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: ORPHAN_GRACE_MS });
      await sharedHome.tokenProcesses.waitForAllRoles();
      // One run has a dead owner. In the copy, no process holds the lock of either owner.
      const other = await sharedHome.supervisorProcess("in_other");
      const orphaned = await other.spawn(sharedHome.script("echo up; read a; exit 3"), {
        graceMs: ORPHAN_GRACE_MS,
      });
      await other.kill();
      const copy = join(sharedHome.sandbox.directory, "copy");
      expect(spawnSync("cp", ["-a", sharedHome.home, copy]).status).toBe(0);
      const before = sharedHome.dumpStore();
      const lives = sharedHome.survivors();

      sharedHome.expireLeases(1, copy);
      await expect(sharedHome.gateway(copy)).rejects.toMatchObject({
        code: "STATE_COPIED",
        original: sharedHome.home,
      });
      // Nor does a supervisor of an older release, which does not know the origin of the directory.
      rmSync(join(copy, "state-location"));
      const gateway = await sharedHome.gateway(copy);
      expect(gateway.instanceId).toBe(FIRST_INSTANCE);
      await gateway.supervisor.reconcile();
      for (const run of await gateway.supervisor.listRuns())
        expect({ runId: run.runId, state: run.state }).toEqual({ runId: run.runId, state: "running" });
      expect(sharedHome.survivors()).toEqual(lives);
      expect(sharedHome.dumpStore()).toEqual(before);
      await gateway.stop();

      await supervisorProcess.write(runId, "exit 5\n");
      expect((await supervisorProcess.receive("ended")).record).toMatchObject({
        exit: { reason: "ownership-escape", code: 5 },
        leaseEpoch: 1,
      });
      sharedHome.expireLeases();
      await finish(supervisorProcess, orphaned.runId);
    });
});

test.concurrent("a copy with its own runs does not touch later runs of the original", async ({ skip }) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  await using sharedHome = await SharedHome.open(tiers.cgroup);
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const first = await supervisorProcess.spawn({ io: "pipe", argv: ["cat"] }, { graceMs: ORPHAN_GRACE_MS });
  supervisorProcess.cancel(first.runId);
  await supervisorProcess.receive("ended");
  const copy = join(sharedHome.sandbox.directory, "copy");
  expect(spawnSync("cp", ["-a", sharedHome.home, copy]).status).toBe(0);
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: ORPHAN_GRACE_MS });
  await sharedHome.tokenProcesses.waitForAllRoles();
  const lives = sharedHome.survivors();

  // The same instance in another directory, as an older release starts it: its cgroups must differ.
  const twin = await sharedHome.supervisorProcess(FIRST_INSTANCE, { home: copy });
  const own = await twin.spawn({ io: "pipe", argv: ["cat"] }, { graceMs: ORPHAN_GRACE_MS });
  await twin.reconcile();
  await twin.reconcile();
  expect(sharedHome.survivors()).toEqual(lives);
  twin.cancel(own.runId);
  await twin.receive("ended");
  await twin.close();
  await supervisorProcess.write(runId, "exit 5\n");
  expect((await supervisorProcess.receive("ended")).record).toMatchObject({
    exit: { reason: "ownership-escape", code: 5, source: "anchor" },
  });
  await supervisorProcess.close();
});

/** Takes the run over and waits until it exits by itself. */
async function finish(supervisorProcess: SupervisorProcess, runId: string): Promise<void> {
  const { runIds } = await supervisorProcess.reconcile();
  expect(runIds).toEqual([runId]);
  await supervisorProcess.write(runId, "on\n");
  expect((await supervisorProcess.receive("ended")).record).toMatchObject({
    exit: { reason: "exit", code: 3 },
  });
}
