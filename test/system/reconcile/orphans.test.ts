import { rm } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { tiers } from "../../support/sandbox.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  ORPHAN_GRACE_MS,
  orphanDocileRun,
  orphanScenario,
  SharedHome,
} from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";

async function end(supervisor: Supervisor, runId: string): Promise<void> {
  const run = supervisor.run(runId);
  await run?.cancel();
  expect(await run?.wait()).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
}

describe.concurrent("a run directory without a record", () => {
  test("whose anchor dies while it gets one: its processes are killed", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using sharedHome = await SharedHome.open(tiers.cgroup);
    const runId = await orphanDocileRun(sharedHome);
    sharedHome.sql("delete from runs");
    sharedHome.sql("delete from run_events");
    const next = await sharedHome.supervisorProcess(NEXT_INSTANCE);
    await next.pauseAt("inserted");
    next.order("reconcile", { scope: {} });
    await next.waitUntilPaused();
    await sharedHome.stopAnchors(FIRST_INSTANCE);
    next.resume();
    await sharedHome.ended(runId);
    expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
    expect(sharedHome.sql("select * from runs")).toMatchObject([
      { exit_reason: "lost", emptiness: "proven" },
    ]);
    expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    await next.close();
    await sharedHome.stopAllRuns(await sharedHome.supervisor("in_tidy"));
  });

  test("whose supervisor dies after it wrote the record: the next one kills the processes in the cgroup", async ({
    skip,
  }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using sharedHome = await SharedHome.open(tiers.cgroup);
    const runId = await orphanDocileRun(sharedHome);
    await sharedHome.stopAnchors(FIRST_INSTANCE);
    sharedHome.sql("delete from runs");
    sharedHome.sql("delete from run_events");
    const interrupted = await sharedHome.supervisorProcess(NEXT_INSTANCE);
    await interrupted.pauseAt("inserted");
    interrupted.order("reconcile", { scope: {} });
    await interrupted.waitUntilPaused();
    await interrupted.kill();
    sharedHome.expireLeases();
    const last = await sharedHome.supervisor("in_last");
    expect((await last.reconcile()).decisions).toMatchObject([
      { runId, row: "unverifiable", action: "lose" },
    ]);
    expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
    expect(await last.getRun(runId)).toMatchObject({
      state: "exited",
      emptiness: "proven",
      exit: { reason: "lost" },
      residueCount: 3,
    });
    expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    await sharedHome.stopAllRuns(last);
  });

  for (const [whose, by] of [
    ["mine", FIRST_INSTANCE],
    ["a dead instance's", NEXT_INSTANCE],
  ] as const) {
    test(`${whose}, with a live anchor: gets a record and continues`, async () => {
      await using sharedHome = await SharedHome.open();
      const runId = await orphanScenario(sharedHome);
      sharedHome.sql("delete from runs");
      sharedHome.sql("delete from run_events");
      const next = await sharedHome.supervisor(by);
      const { decisions, runs } = await next.reconcile();
      expect(decisions).toMatchObject([{ runId, row: "imported", action: "continue" }]);
      expect(runs.map((run) => run.runId)).toEqual([runId]);
      await waitFor("it runs", () => sharedHome.column(runId, "state") === "running");
      expect(await next.getRun(runId)).toMatchObject({
        leaseId: "",
        ownerInstanceId: by,
        originInstanceId: FIRST_INSTANCE,
        root: { pid: runs[0]?.rootPid },
      });
      expect(sharedHome.reconcileDecisions(runId)).toMatchObject([
        { row: "imported", action: "continue", by },
      ]);
      expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
      const once = sharedHome.dumpStore();
      await next.reconcile();
      expect(sharedHome.dumpStore()).toEqual(once);
      await end(next, runId);
      expect(sharedHome.eventTypes(runId)).toEqual(["reconcile", "spawn", "cancel", "cleanup", "exit"]);
    });

    test(`${whose}, that has ended: gets a record with its end`, async () => {
      await using sharedHome = await SharedHome.open();
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
      await supervisorProcess.pauseAt("end-heard");
      supervisorProcess.order("spawn", { input: sharedHome.script("exit 7") });
      await supervisorProcess.waitUntilPaused();
      await supervisorProcess.kill();
      const runId = sharedHome.onlyRun();
      sharedHome.sql("delete from runs");
      sharedHome.sql("delete from run_events");
      const next = await sharedHome.supervisor(by);
      expect(await next.reconcile()).toMatchObject({ decisions: [{ runId, row: "imported" }], runs: [] });
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "exit", code: 7, source: "exit-file" },
      });
      expect(sharedHome.eventTypes(runId)).toEqual(["reconcile", "spawn", "exit"]);
      const once = sharedHome.dumpStore();
      await next.reconcile();
      expect(sharedHome.dumpStore()).toEqual(once);
    });
  }

  test("of a live instance is left alone", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
    const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: ORPHAN_GRACE_MS });
    await sharedHome.tokenProcesses.waitForAllRoles();
    const [row = {}] = sharedHome.sql("select * from runs");
    sharedHome.sql("delete from runs");
    const next = await sharedHome.supervisor(NEXT_INSTANCE);
    expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
    expect(await next.listRuns()).toEqual([]);
    expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
    const names = Object.keys(row);
    sharedHome.sql(
      `insert into runs (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`,
      ...(Object.values(row) as string[]),
    );
    supervisorProcess.cancel(runId);
    await supervisorProcess.receive("ended");
  });
});

describe.concurrent("a cgroup without a record and without a directory", () => {
  for (const [whose, by] of [
    ["mine", FIRST_INSTANCE],
    ["a dead instance's", NEXT_INSTANCE],
  ] as const)
    test(`${whose}: its processes are killed, and a record is written`, async ({ skip }) => {
      if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
      await using sharedHome = await SharedHome.open(tiers.cgroup);
      const runId = await orphanDocileRun(sharedHome);
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      await rm(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), { recursive: true });
      sharedHome.sql("delete from runs");
      sharedHome.sql("delete from run_events");
      const next = await sharedHome.supervisor(by);
      expect(await next.reconcile()).toMatchObject({
        decisions: [{ runId, row: "detached-orphaned", action: "sweep" }],
        runs: [],
      });
      expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "lost", source: "none" },
        residueCount: 3,
      });
      expect(sharedHome.reconcileDecisions(runId)).toMatchObject([
        { row: "detached-orphaned", action: "sweep", by },
      ]);
      expect(sharedHome.eventTypes(runId)).toEqual(["reconcile", "cleanup", "exit"]);
      const once = sharedHome.dumpStore();
      await next.reconcile();
      expect(sharedHome.dumpStore()).toEqual(once);
      await next.close();
      await sharedHome.stopAllRuns(await sharedHome.supervisor("in_tidy"));
    });
});
