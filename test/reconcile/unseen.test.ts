import { chmodSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tiers, type Tier } from "../tree/seat.js";
import { House } from "./house.js";
import { FIRST, NEXT, orphan } from "./orphan.js";

/** The anchor binary that supervisors of this house ask, replaced by one that cannot tell anything. */
function blind(house: House): () => void {
  const directory = join(house.home, "bin");
  const [name] = readdirSync(directory);
  const path = join(directory, name ?? "");
  renameSync(path, `${path}.kept`);
  writeFileSync(path, "#!/bin/sh\nexit 1\n");
  chmodSync(path, 0o700);
  return () => renameSync(`${path}.kept`, path);
}

describe.concurrent("when processes cannot be looked at", () => {
  const situations: readonly { name: string; tier: Tier; row: string }[] = [
    { name: "a run with a dead anchor", tier: tiers.none, row: "root-alive" },
    { name: "a run with a dead anchor and a cgroup", tier: tiers.cgroup, row: "root-alive" },
  ];
  for (const { name, tier, row } of situations)
    test(`${name} is neither signalled nor ended; when they can be again, it is decided`, async ({
      skip,
    }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const runId = await orphan(house, { onOrphan: "terminate" });
      await house.silence(FIRST);
      const next = await house.supervisor(NEXT);
      const before = house.alive();
      const see = blind(house);
      const { decisions } = await next.reconcile();
      expect(decisions).toMatchObject([{ runId, row: "unseen", action: "leave" }]);
      expect(house.alive()).toEqual(before);
      expect(await next.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: FIRST });
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      expect(house.problems).toMatchObject([{ runId }]);

      see();
      expect((await next.reconcile()).decisions).toMatchObject([{ runId, row }]);
      await house.ended(runId);
      expect(house.decisions(runId).map((each) => each.row)).toEqual(["unseen", row]);
      // Without a cgroup nobody can find a daemon that carries no marker.
      if (tier === tiers.none) {
        expect(house.crowd.others()).toHaveLength(1);
        await house.endOthers();
      } else await house.crowd.gone(5_000);
      await house.tidy(next);
    });

  test("a run whose anchor answers to its key is continued", async () => {
    await using house = await House.open(tiers.none);
    const runId = await orphan(house, { onOrphan: "adopt" });
    const next = await house.supervisor(NEXT);
    const before = house.alive();
    const see = blind(house);
    expect((await next.reconcile()).decisions).toMatchObject([
      { runId, row: "anchor-alive", action: "adopt" },
    ]);
    expect(house.alive()).toEqual(before);
    expect(await next.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: NEXT });
    see();
    await next.run(runId)?.cancel();
    await house.ended(runId);
    await house.crowd.gone(5_000);
    await house.tidy(next);
  });
});

test.concurrent("processes cannot be looked at in the midst of a sweep: it is finished when they can", async ({
  skip,
}) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  await using house = await House.open(tiers.cgroup);
  const runId = await orphan(house);
  await house.silence(FIRST);
  const next = await house.keeper(NEXT);
  await next.stopAt("reaping");
  next.order("reconcile", { scope: {} });
  await next.arrived();
  const before = house.alive();
  const see = blind(house);
  next.goOn();
  await next.hear("reconciled");
  expect((await next.hear("problem")).message).toContain("cannot find out yet");
  expect(house.alive()).toEqual(before);
  expect(house.column(runId, "state")).toBe("running");
  see();
  await house.ended(runId);
  expect(house.crowd.others()).toEqual([]);
  expect(house.sql("select * from runs")).toMatchObject([{ exit_reason: "lost", emptiness: "proven" }]);
  expect(house.decisions(runId)).toHaveLength(1);
  await next.close();
  await house.tidy(await house.supervisor("in_tidy"));
});
