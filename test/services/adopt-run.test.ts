import { setTimeout } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { findAnchor } from "../../src/anchor/find.js";
import { observeNatively } from "../../src/anchor/native-host.js";
import { readMachineIdentity } from "../../src/store/machine.js";
import { House } from "../reconcile/house.js";
import { steps } from "../reconcile/steps.js";
import { until } from "../io/until.js";

/** Each starts a supervisor in a process of its own, and many do at once. */
vi.setConfig({ testTimeout: 60_000 });

const FIRST = "in_first000";
const OWNER_LOSS_MS = 300;

/** What its anchor goes by. */
async function kindOf(house: House, runId: string): Promise<string | undefined> {
  await using host = observeNatively(house.home, await readMachineIdentity(house.home), findAnchor());
  const link = await host.attach({ instanceId: FIRST, runId }, 0);
  link?.close();
  return link?.welcome.kind;
}

describe.concurrent("a task that is adopted as a service", () => {
  test("outlives its owner, and its timeouts, for good", async () => {
    await using house = await House.open();
    const keeper = await house.keeper(FIRST);
    const options = { ownerLossMs: OWNER_LOSS_MS, timeoutMs: 2_000, noOutputTimeoutMs: 2_000 };
    const task = await keeper.spawn(house.scenario, { ...options, graceMs: 100 });
    const { runId } = await keeper.spawn(house.scenario, options);
    await until("all are there", () => house.crowd.others().length === 10);
    keeper.adopt(runId);
    await keeper.hear("adopted");
    expect(house.column(runId, "kind")).toBe("service");
    expect(house.eventTypes(runId)).toContain("adopt");
    await keeper.kill();
    // The task beside it shows when the time is over; its timeouts are over a while later.
    await until("the task is gone", () => house.crowd.others().length === 5);
    await setTimeout(2_500);
    expect(house.crowd.others()).toHaveLength(5);
    const next = await house.supervisor(FIRST);
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

  test("keeps its timeouts when told so", async () => {
    await using house = await House.open();
    const keeper = await house.keeper(FIRST);
    const { runId } = await keeper.spawn(house.scenario, { timeoutMs: 1_500, graceMs: 0 });
    keeper.order("adopt", { runId, options: { keepTimeouts: true } });
    await keeper.hear("adopted");
    expect((await keeper.hear("ended")).record).toMatchObject({
      kind: "service",
      exit: { reason: "overall-timeout" },
    });
  });

  for (const step of steps.adopt)
    test(`its supervisor killed at ${step}: record and anchor agree when the next has looked`, async () => {
      await using house = await House.open();
      const keeper = await house.keeper(FIRST);
      const { runId } = await keeper.spawn(house.scenario, { graceMs: 0, timeoutMs: 600_000 });
      await keeper.stopAt(step);
      keeper.adopt(runId);
      expect(await keeper.arrived()).toBe(step);
      await keeper.kill();
      const next = await house.supervisor(FIRST);
      await next.reconcile();
      const kind = step === "adopt-saving" ? "task" : "service";
      expect(await next.getRun(runId)).toMatchObject({
        kind,
        deadlines: { overallMs: kind === "task" ? 600_000 : null },
      });
      await until("its anchor knows", async () => (await kindOf(house, runId)) === kind);
      // Said again it is done, or was done before.
      expect(await next.adoptRun(runId)).toMatchObject({ kind: "service" });
      expect(await kindOf(house, runId)).toBe("service");
      expect(house.eventTypes(runId).filter((type) => type === "adopt")).toHaveLength(1);
      expect((await next.stop(runId)).outcome).toBe("gone");
    });
});

test("what has ended, or is held by somebody else, is not adopted", async () => {
  await using house = await House.open();
  const keeper = await house.keeper(FIRST);
  const { runId } = await keeper.spawn(house.scenario, { graceMs: 0 });
  const other = await house.supervisor("in_other000");
  await expect(other.adoptRun(runId)).rejects.toMatchObject({ code: "NOT_STEERING" });
  await expect(other.adoptRun("run_none")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  keeper.cancel(runId);
  await keeper.hear("ended");
  await expect(other.adoptRun(runId)).rejects.toMatchObject({ code: "BAD_INPUT" });
  expect(house.column(runId, "kind")).toBe("task");
});
