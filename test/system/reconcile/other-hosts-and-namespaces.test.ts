import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openNativeHost } from "../../../src/anchor/native-host.js";
import { defaults } from "../../../src/defaults.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { readMachineIdentity } from "../../../src/home/machine-identity.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { systemClock } from "../../../src/async/clock.js";
import { createSupervisor } from "../../../src/supervisor/supervisor.js";
import { tiers } from "../../support/sandbox.js";
import { signalRecorded, SharedHome } from "../../support/supervisor/shared-home.js";

const FIRST = "in_first";
const graceMs = 200;
/** Starts a command in its own PID namespace with its own /proc. All of its processes end with this command. */
const under = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
const possible = spawnSync(under[0] ?? "", [...under.slice(1), "true"], { stdio: "ignore" }).status === 0;

/** A supervisor with real parts and a clock that can be set forward. */
async function supervisorWithClock(
  sharedHome: SharedHome,
  instanceId: string,
): Promise<{ supervisor: Supervisor; readonly advance: (ms: number) => void }> {
  const instanceDir = join(sharedHome.home, "instances", instanceId);
  mkdirSync(instanceDir, { recursive: true, mode: 0o700 });
  const lock = await acquireInstanceLock(instanceDir);
  const machine = await readMachineIdentity(sharedHome.home);
  const store = await openSqliteStore({ path: join(sharedHome.home, "store.sqlite") });
  const names = { home: sharedHome.home, instanceId };
  const host = await openNativeHost({ ...names, instanceDir, incarnation: "clock", machine });
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const onClosed = async (): Promise<void> => lock[Symbol.asyncDispose]();
  const supervisor = createSupervisor({ ...names, store, host, clock, onClosed });
  return { supervisor, advance: (ms) => (ahead += ms) };
}

test("a run of another host without a sign of life for a day is lost and unproven, without a signal", async () => {
  await using sharedHome = await SharedHome.open();
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const { runId, anchor } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs });
  await sharedHome.tokenProcesses.waitForAllRoles();
  await supervisorProcess.kill();
  sharedHome.expireLeases();
  sharedHome.updateRecord(runId, { host_id: "another", boot_id: "another" });
  const alive = sharedHome.survivors();
  const { supervisor, advance } = await supervisorWithClock(sharedHome, "in_patient");
  const left = [{ runId, row: "elsewhere", action: "leave" }];
  expect((await supervisor.reconcile()).decisions).toMatchObject(left);
  advance(defaults.hostLostMs - 60_000);
  expect((await supervisor.reconcile()).decisions).toMatchObject(left);
  advance(60_000);
  expect((await supervisor.reconcile()).decisions).toMatchObject([
    { runId, row: "elsewhere", action: "lose" },
  ]);
  expect(await supervisor.getRun(runId)).toMatchObject({
    state: "exited",
    exit: { reason: "lost", source: "none" },
    emptiness: "unproven",
  });
  expect(sharedHome.survivors()).toEqual(alive);
  expect(sharedHome.reconcileDecisions(runId).map(({ action }) => action)).toEqual(["leave", "lose"]);
  const settled = sharedHome.dumpStore();
  await supervisor.reconcile();
  expect(sharedHome.dumpStore()).toEqual(settled);
  expect(sharedHome.survivors()).toEqual(alive);
  await supervisor.close();
  signalRecorded(anchor, "SIGTERM");
  await sharedHome.tokenProcesses.waitUntilGone(5_000);
});

describe.skipIf(!possible)("seen from another PID namespace", { concurrent: true }, () => {
  for (const tier of [tiers.none, tiers.cgroup])
    test(`an orphan is neither signalled nor finalized: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
      const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.kill();
      // Its pids mean nothing in another namespace, however long its lease has expired.
      sharedHome.expireLeases(1_000_000);
      const alive = sharedHome.survivors();
      const outside = await sharedHome.supervisorProcess("in_outside", { under });
      for (let times = 0; times < 2; times++) {
        const { decisions, runIds } = await outside.reconcile();
        expect(decisions).toMatchObject([{ runId, row: "elsewhere", action: "leave" }]);
        expect(runIds).toEqual([]);
      }
      expect(sharedHome.survivors()).toEqual(alive);
      expect(sharedHome.column(runId, "state")).toBe("running");
      expect(sharedHome.reconcileDecisions(runId)).toMatchObject([{ row: "elsewhere", action: "leave" }]);
      await outside.close();

      // In its own namespace it can be taken over.
      const next = await sharedHome.supervisor("in_next");
      const { runs } = await next.reconcile({ terminate: true });
      expect((await runs[0]?.wait())?.emptiness).toBe("proven");
      await sharedHome.stopAllRuns(next);
    });

  test("a dead anchor of an orphan allows no conclusion", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
    const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs });
    await sharedHome.tokenProcesses.waitForAllRoles();
    await supervisorProcess.kill();
    await sharedHome.stopAnchors(FIRST);
    sharedHome.expireLeases();
    const alive = sharedHome.survivors();
    const outside = await sharedHome.supervisorProcess("in_outside", { under });
    expect((await outside.reconcile()).decisions).toMatchObject([
      { runId, row: "elsewhere", action: "leave" },
    ]);
    expect(sharedHome.survivors()).toEqual(alive);
    expect(sharedHome.column(runId, "state")).toBe("running");
    await outside.close();
    await sharedHome.killStrays();
  });

  test("the lease of a live owner there is not stolen, because its lock is visible", async () => {
    await using sharedHome = await SharedHome.open();
    const outside = await sharedHome.supervisorProcess("in_outside", { under });
    const { runId } = await outside.spawn({ io: "pipe", argv: ["cat"] }, { graceMs });
    sharedHome.expireLeases(1_000_000);
    const next = await sharedHome.supervisor("in_next");
    expect((await next.reconcile()).decisions).toMatchObject([{ runId, row: "stalled", action: "leave" }]);
    outside.cancel(runId);
    expect((await outside.receive("ended")).record).toMatchObject({ exit: { reason: "manual-cancel" } });
    await outside.close();
  });

  test("an own run continues when its anchor answers, and ends with its own code", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
    const { runId } = await supervisorProcess.spawn(sharedHome.script("read a; exit 8"), { graceMs });
    await supervisorProcess.kill();
    const returned = await sharedHome.supervisorProcess(FIRST, { under });
    expect((await returned.reconcile()).decisions).toMatchObject([
      { runId, row: "anchor-alive", action: "continue" },
    ]);
    await returned.write(runId, "on\n");
    expect((await returned.receive("ended")).record).toMatchObject({ exit: { reason: "exit", code: 8 } });
    await returned.close();
  });
});
