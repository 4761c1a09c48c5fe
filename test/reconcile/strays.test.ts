import { rm } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import type { Supervisor } from "../../src/supervisor/api.js";
import { until } from "../tree/living.js";
import { tiers } from "../tree/seat.js";
import { House } from "./house.js";
import { docile, FIRST, graceMs, NEXT, orphan } from "./orphan.js";

async function end(supervisor: Supervisor, runId: string): Promise<void> {
  const run = supervisor.run(runId);
  await run?.cancel();
  expect(await run?.wait()).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
}

describe.concurrent("a run directory without a record", () => {
  test("whose anchor dies while it is given one: its tree is ended all the same", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using house = await House.open(tiers.cgroup);
    const runId = await docile(house);
    house.sql("delete from runs");
    house.sql("delete from run_events");
    const next = await house.keeper(NEXT);
    await next.stopAt("inserted");
    next.order("reconcile", { scope: {} });
    await next.arrived();
    await house.silence(FIRST);
    next.goOn();
    await house.ended(runId);
    expect(house.crowd.others()).toEqual([]);
    expect(house.sql("select * from runs")).toMatchObject([{ exit_reason: "lost", emptiness: "proven" }]);
    expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    await next.close();
    await house.tidy(await house.supervisor("in_tidy"));
  });

  for (const [whose, by] of [
    ["mine", FIRST],
    ["a dead instance's", NEXT],
  ] as const) {
    test(`${whose}, whose anchor lives: gets a record and goes on`, async () => {
      await using house = await House.open();
      const runId = await orphan(house);
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      const { decisions, runs } = await next.reconcile();
      expect(decisions).toMatchObject([{ runId, row: "imported", action: "continue" }]);
      expect(runs.map((run) => run.runId)).toEqual([runId]);
      await until("it runs", () => house.column(runId, "state") === "running");
      expect(await next.getRun(runId)).toMatchObject({
        leaseId: "",
        ownerInstanceId: by,
        originInstanceId: FIRST,
        root: { pid: runs[0]?.rootPid },
      });
      expect(house.decisions(runId)).toMatchObject([{ row: "imported", action: "continue", by }]);
      expect(house.crowd.others()).toHaveLength(5);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      await end(next, runId);
      expect(house.eventTypes(runId)).toEqual(["reconcile", "spawn", "cancel", "cleanup", "exit"]);
    });

    test(`${whose}, that is over: gets a record with the true end`, async () => {
      await using house = await House.open();
      const keeper = await house.keeper(FIRST);
      await keeper.stopAt("end-heard");
      keeper.order("spawn", { input: house.script("exit 7") });
      await keeper.arrived();
      await keeper.kill();
      const runId = house.onlyRun();
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      expect(await next.reconcile()).toMatchObject({ decisions: [{ runId, row: "imported" }], runs: [] });
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "exit", code: 7, source: "exit-file" },
      });
      expect(house.eventTypes(runId)).toEqual(["reconcile", "spawn", "exit"]);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
    });
  }

  test("of an instance that lives: is left to it", async () => {
    await using house = await House.open();
    const keeper = await house.keeper(FIRST);
    const { runId } = await keeper.spawn(house.scenario, { graceMs });
    await house.crowd.complete();
    const [row = {}] = house.sql("select * from runs");
    house.sql("delete from runs");
    const next = await house.supervisor(NEXT);
    expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
    expect(await next.listRuns()).toEqual([]);
    expect(house.crowd.others()).toHaveLength(5);
    const names = Object.keys(row);
    house.sql(
      `insert into runs (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`,
      ...(Object.values(row) as string[]),
    );
    keeper.cancel(runId);
    await keeper.hear("ended");
  });
});

describe.concurrent("a cgroup without a record and without a directory", () => {
  for (const [whose, by] of [
    ["mine", FIRST],
    ["a dead instance's", NEXT],
  ] as const)
    test(`${whose}: whoever is in it is ended, and that is on record`, async ({ skip }) => {
      if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
      await using house = await House.open(tiers.cgroup);
      const runId = await docile(house);
      await house.silence(FIRST);
      await rm(house.runDirectory({ originInstanceId: FIRST, runId }), { recursive: true });
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      expect(await next.reconcile()).toMatchObject({
        decisions: [{ runId, row: "detached-orphaned", action: "sweep" }],
        runs: [],
      });
      expect(house.crowd.others()).toEqual([]);
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "lost", source: "none" },
        residueCount: 3,
      });
      expect(house.decisions(runId)).toMatchObject([{ row: "detached-orphaned", action: "sweep", by }]);
      expect(house.eventTypes(runId)).toEqual(["reconcile", "cleanup", "exit"]);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      await next.close();
      await house.tidy(await house.supervisor("in_tidy"));
    });
});
