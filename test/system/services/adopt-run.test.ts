import { setTimeout } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { openNativeObserver } from "../../../src/anchor/native-observer.js";
import { readMachineIdentity } from "../../../src/home/machine-identity.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import { SUPERVISOR_STEPS } from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

/** Each test starts a supervisor in a process of its own, and many run at once. */
vi.setConfig({ testTimeout: 60_000 });

const FIRST = "in_first000";
const OWNER_LOSS_MS = 300;

/** The kind of the run according to its anchor. */
async function kindOf(sharedHome: SharedHome, runId: string): Promise<string | undefined> {
  await using host = openNativeObserver(
    sharedHome.home,
    await readMachineIdentity(sharedHome.home),
    findAnchorBinary(),
  );
  const link = await host.attach({ instanceId: FIRST, runId }, 0);
  link?.close();
  return link?.welcome.kind;
}

describe.concurrent("a task that is adopted as a service", () => {
  test("survives its owner and its timeouts", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
    const options = { ownerLossMs: OWNER_LOSS_MS, timeoutMs: 2_000, noOutputTimeoutMs: 2_000 };
    const task = await supervisorProcess.spawn(sharedHome.scenario, { ...options, graceMs: 100 });
    const { runId } = await supervisorProcess.spawn(sharedHome.scenario, options);
    await waitFor("all are there", () => sharedHome.tokenProcesses.ofRuns().length === 10);
    supervisorProcess.adopt(runId);
    await supervisorProcess.receive("adopted");
    expect(sharedHome.column(runId, "kind")).toBe("service");
    expect(sharedHome.eventTypes(runId)).toContain("adopt");
    await supervisorProcess.kill();
    // The end of the task shows that the time of owner loss is over. The timeouts end later.
    await waitFor("the task is gone", () => sharedHome.tokenProcesses.ofRuns().length === 5);
    await setTimeout(2_500);
    expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
    const next = await sharedHome.supervisor(FIRST);
    await next.reconcile();
    expect(await next.getRun(task.runId)).toMatchObject({ exit: { reason: "owner-lost" } });
    expect(await next.getRun(runId)).toMatchObject({
      state: "running",
      kind: "service",
      service: { port: null, readyAt: null },
      deadlines: { overallMs: null, noOutputMs: null },
    });
    expect((await next.stop(runId, { graceMs: 0 })).outcome).toBe("gone");
  });

  test("keeps its timeouts with keepTimeouts", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
    const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { timeoutMs: 1_500, graceMs: 0 });
    supervisorProcess.order("adopt", { runId, options: { keepTimeouts: true } });
    await supervisorProcess.receive("adopted");
    expect((await supervisorProcess.receive("ended")).record).toMatchObject({
      kind: "service",
      exit: { reason: "overall-timeout" },
    });
  });

  for (const step of SUPERVISOR_STEPS.adopt)
    test(`its supervisor killed at ${step}: record and anchor agree after the next reconciliation`, async () => {
      await using sharedHome = await SharedHome.open();
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
      const { runId } = await supervisorProcess.spawn(sharedHome.scenario, {
        graceMs: 0,
        timeoutMs: 600_000,
      });
      await supervisorProcess.pauseAt(step);
      supervisorProcess.adopt(runId);
      expect(await supervisorProcess.waitUntilPaused()).toBe(step);
      await supervisorProcess.kill();
      const next = await sharedHome.supervisor(FIRST);
      await next.reconcile();
      const kind = step === "adopt-saving" ? "task" : "service";
      expect(await next.getRun(runId)).toMatchObject({
        kind,
        deadlines: { overallMs: kind === "task" ? 600_000 : null },
      });
      await waitFor("its anchor knows", async () => (await kindOf(sharedHome, runId)) === kind);
      // A repeated adoption succeeds.
      expect(await next.adoptRun(runId)).toMatchObject({ kind: "service" });
      expect(await kindOf(sharedHome, runId)).toBe("service");
      expect(sharedHome.eventTypes(runId).filter((type) => type === "adopt")).toHaveLength(1);
      expect((await next.stop(runId)).outcome).toBe("gone");
    });
});

test("an ended run and a run of another owner are not adopted", async () => {
  await using sharedHome = await SharedHome.open();
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: 0 });
  const other = await sharedHome.supervisor("in_other000");
  await expect(other.adoptRun(runId)).rejects.toMatchObject({ code: "NOT_STEERING" });
  await expect(other.adoptRun("run_none")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  supervisorProcess.cancel(runId);
  await supervisorProcess.receive("ended");
  await expect(other.adoptRun(runId)).rejects.toMatchObject({ code: "BAD_INPUT" });
  expect(sharedHome.column(runId, "kind")).toBe("task");
});
