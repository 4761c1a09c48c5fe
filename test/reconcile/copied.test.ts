import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { recordLocation } from "../../src/store/state-location.js";
import { tiers } from "../tree/seat.js";
import { House } from "./house.js";
import type { Keeper } from "./keeper.js";
import { FIRST, graceMs } from "./orphan.js";

describe.concurrent("a copied state directory", () => {
  for (const tier of [tiers.none, tiers.cgroup])
    test(`its gateway touches none of the original's live runs: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const keeper = await house.keeper(FIRST);
      await recordLocation(house.home);
      writeFileSync(join(house.home, "gateway-id"), `${FIRST}\n`, { mode: 0o600 });
      const { runId } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      // One whose owner is gone, too: in the copy nobody holds either's lock.
      const other = await house.keeper("in_other");
      const orphaned = await other.spawn(house.script("echo up; read a; exit 3"), { graceMs });
      await other.kill();
      const copy = join(house.seat.directory, "copy");
      expect(spawnSync("cp", ["-a", house.home, copy]).status).toBe(0);
      const before = house.everything();
      const lives = house.alive();

      house.expireLeases(1, copy);
      await expect(house.gateway(copy)).rejects.toMatchObject({ code: "STATE_COPIED", original: house.home });
      // Nor does a supervisor that does not know where the directory was made, as of a former release.
      rmSync(join(copy, "state-location"));
      const gateway = await house.gateway(copy);
      expect(gateway.instanceId).toBe(FIRST);
      await gateway.supervisor.reconcile();
      for (const run of await gateway.supervisor.listRuns())
        expect({ runId: run.runId, state: run.state }).toEqual({ runId: run.runId, state: "running" });
      expect(house.alive()).toEqual(lives);
      expect(house.everything()).toEqual(before);
      await gateway.stop();

      await keeper.write(runId, "exit 5\n");
      expect((await keeper.hear("ended")).record).toMatchObject({
        exit: { reason: "ownership-escape", code: 5 },
        leaseEpoch: 1,
      });
      house.expireLeases();
      await finish(keeper, orphaned.runId);
    });
});

test.concurrent("a copy that has runs of its own touches none of those the original has started since", async ({
  skip,
}) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  await using house = await House.open(tiers.cgroup);
  const keeper = await house.keeper(FIRST);
  const first = await keeper.spawn({ io: "pipe", argv: ["cat"] }, { graceMs });
  keeper.cancel(first.runId);
  await keeper.hear("ended");
  const copy = join(house.seat.directory, "copy");
  expect(spawnSync("cp", ["-a", house.home, copy]).status).toBe(0);
  const { runId } = await keeper.spawn(house.scenario, { graceMs });
  await house.crowd.complete();
  const lives = house.alive();

  // The same instance in another place, as a former release would start it: its cgroups must be told apart.
  const twin = await house.keeper(FIRST, { home: copy });
  const own = await twin.spawn({ io: "pipe", argv: ["cat"] }, { graceMs });
  await twin.reconcile();
  await twin.reconcile();
  expect(house.alive()).toEqual(lives);
  twin.cancel(own.runId);
  await twin.hear("ended");
  await twin.close();
  await keeper.write(runId, "exit 5\n");
  expect((await keeper.hear("ended")).record).toMatchObject({
    exit: { reason: "ownership-escape", code: 5, source: "anchor" },
  });
  await keeper.close();
});

/** Takes the run over and lets it exit by itself. */
async function finish(keeper: Keeper, runId: string): Promise<void> {
  const { runIds } = await keeper.reconcile();
  expect(runIds).toEqual([runId]);
  await keeper.write(runId, "on\n");
  expect((await keeper.hear("ended")).record).toMatchObject({ exit: { reason: "exit", code: 3 } });
}
