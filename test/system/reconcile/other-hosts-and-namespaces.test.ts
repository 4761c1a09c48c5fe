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
/** A PID namespace of its own, with a /proc to match. Its first process ends with what started it, and all others with that. */
const under = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
const possible = spawnSync(under[0] ?? "", [...under.slice(1), "true"], { stdio: "ignore" }).status === 0;

/** Real parts, and a clock that can be put forward. */
async function patient(
  sharedHome: SharedHome,
  instanceId: string,
): Promise<{ supervisor: Supervisor; readonly wait: (ms: number) => void }> {
  const instanceDir = join(sharedHome.home, "instances", instanceId);
  mkdirSync(instanceDir, { recursive: true, mode: 0o700 });
  const lock = await acquireInstanceLock(instanceDir);
  const machine = await readMachineIdentity(sharedHome.home);
  const store = await openSqliteStore({ path: join(sharedHome.home, "store.sqlite") });
  const names = { home: sharedHome.home, instanceId };
  const host = await openNativeHost({ ...names, instanceDir, incarnation: "patient", machine });
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const onClosed = async (): Promise<void> => lock[Symbol.asyncDispose]();
  const supervisor = createSupervisor({ ...names, store, host, clock, onClosed });
  return { supervisor, wait: (ms) => (ahead += ms) };
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
  const { supervisor, wait } = await patient(sharedHome, "in_patient");
  const left = [{ runId, row: "elsewhere", action: "leave" }];
  expect((await supervisor.reconcile()).decisions).toMatchObject(left);
  wait(defaults.hostLostMs - 60_000);
  expect((await supervisor.reconcile()).decisions).toMatchObject(left);
  wait(60_000);
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
      // For however long: its numbers mean nothing there.
      sharedHome.expireLeases(1_000_000);
      const alive = sharedHome.survivors();
      const stranger = await sharedHome.supervisorProcess("in_stranger", { under });
      for (let times = 0; times < 2; times++) {
        const { decisions, runIds } = await stranger.reconcile();
        expect(decisions).toMatchObject([{ runId, row: "elsewhere", action: "leave" }]);
        expect(runIds).toEqual([]);
      }
      expect(sharedHome.survivors()).toEqual(alive);
      expect(sharedHome.column(runId, "state")).toBe("running");
      expect(sharedHome.reconcileDecisions(runId)).toMatchObject([{ row: "elsewhere", action: "leave" }]);
      await stranger.close();

      // From where it lives it can be taken over.
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
    const stranger = await sharedHome.supervisorProcess("in_stranger", { under });
    expect((await stranger.reconcile()).decisions).toMatchObject([
      { runId, row: "elsewhere", action: "leave" },
    ]);
    expect(sharedHome.survivors()).toEqual(alive);
    expect(sharedHome.column(runId, "state")).toBe("running");
    await stranger.close();
    await sharedHome.killStrays();
  });

  test("the lease of a live owner there is not stolen, because its lock is visible", async () => {
    await using sharedHome = await SharedHome.open();
    const stranger = await sharedHome.supervisorProcess("in_stranger", { under });
    const { runId } = await stranger.spawn({ io: "pipe", argv: ["cat"] }, { graceMs });
    sharedHome.expireLeases(1_000_000);
    const next = await sharedHome.supervisor("in_next");
    expect((await next.reconcile()).decisions).toMatchObject([{ runId, row: "stalled", action: "leave" }]);
    stranger.cancel(runId);
    expect((await stranger.receive("ended")).record).toMatchObject({ exit: { reason: "manual-cancel" } });
    await stranger.close();
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
