import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess, SupervisorStep } from "../../support/supervisor/supervisor-process.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const FIRST = "in_first";
const graceMs = 200;
/** A lease that expired this long ago may be stolen from a live owner. */
const STALLED_MS = defaults.stalledOwnerMs + 1_000;

/** An orphan, with or without a live anchor. */
async function orphan(sharedHome: SharedHome, silenced: boolean): Promise<string> {
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs });
  await sharedHome.tokenProcesses.waitForAllRoles();
  await supervisorProcess.kill();
  if (silenced) await sharedHome.stopAnchors(FIRST);
  sharedHome.expireLeases();
  return runId;
}

async function stoppedAt(sharedHome: SharedHome, step: SupervisorStep): Promise<SupervisorProcess> {
  const late = await sharedHome.supervisorProcess("in_late");
  await late.pauseAt(step);
  late.order("reconcile", { scope: {} });
  await late.waitUntilPaused();
  return late;
}

describe.concurrent("a supervisor that was stopped during a take-over and continues when another one owns the run,", () => {
  for (const step of soak
    ? (["looking", "stealing", "stolen", "attached"] as const)
    : (["stealing", "attached"] as const))
    test(`at ${step}: leaves it to the other, and the run continues`, async () => {
      await using sharedHome = await SharedHome.open();
      const runId = await orphan(sharedHome, false);
      const late = await stoppedAt(sharedHome, step);
      sharedHome.expireLeases(STALLED_MS);
      const other = await sharedHome.supervisor("in_other");
      const [run] = (await other.reconcile()).runs;
      if (run === undefined) throw new Error("it was not taken over");
      const taken = sharedHome.dumpStore();

      late.resume();
      const { runIds } = await late.receive("reconciled");
      if (runIds.length > 0)
        expect(await late.receive("rejected")).toMatchObject({ runId, code: "LEASE_LOST" });
      expect(sharedHome.dumpStore()).toEqual(taken);
      expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
      const thieves = sharedHome.reconcileDecisions(runId).map(({ by }) => by);
      const claimed = step === "stolen" || step === "attached";
      expect(thieves).toEqual(claimed ? ["in_late", "in_other"] : ["in_other"]);

      await run.write("exit 5\n");
      expect(await run.wait()).toMatchObject({
        exit: { reason: "ownership-escape", code: 5, source: "anchor" },
        ownerInstanceId: "in_other",
        emptiness: "proven",
      });
      expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await late.close();
    });

  const sweeps: readonly SupervisorStep[] = [
    ...(soak ? (["stealing", "reaping", "end-saved"] as const) : []),
    "stolen",
    "reaped",
    "end-saving",
  ];
  const tier: SandboxTier = tiers.cgroup;
  for (const step of sweeps)
    test(`at ${step} of a run without an anchor: it has one end, recorded once`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const runId = await orphan(sharedHome, true);
      const late = await stoppedAt(sharedHome, step);
      sharedHome.expireLeases(STALLED_MS);
      const other = await sharedHome.supervisor("in_other");
      await other.reconcile();
      await sharedHome.ended(runId);
      expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
      const ended = sharedHome.dumpStore();

      late.resume();
      await late.receive("reconciled");
      expect(sharedHome.dumpStore()).toEqual(ended);
      expect(sharedHome.sql("select * from runs")).toMatchObject([
        { emptiness: "proven", exit_reason: "lost" },
      ]);
      expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await late.close();
      await sharedHome.stopAllRuns(other);
    });
});

test.concurrent("an owner whose lease was stolen by a supervisor that died detaches, and the next one continues", async () => {
  await using sharedHome = await SharedHome.open();
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const { runId } = await supervisorProcess.spawn(sharedHome.script("echo up; read a; exit 6"), { graceMs });
  await supervisorProcess.waitForOutput("up");
  await supervisorProcess.suspend();
  sharedHome.expireLeases(STALLED_MS);
  const thief = await stoppedAt(sharedHome, "stolen");
  await thief.kill();

  // It finds out when it renews its leases: on a slow machine at once, so nothing is expected of it before.
  supervisorProcess.resume();
  expect(await supervisorProcess.receive("problem")).toMatchObject({
    runId,
    code: "LEASE_LOST",
    heldBy: "in_late",
  });
  expect(await supervisorProcess.receive("rejected")).toMatchObject({ runId, code: "LEASE_LOST" });

  sharedHome.expireLeases();
  const { supervisor } = await sharedHome.gateway();
  const run = supervisor.run(runId);
  if (run === null) throw new Error("it was not adopted");
  await run.write("a\n");
  expect(await run.wait()).toMatchObject({ exit: { reason: "exit", code: 6 }, leaseEpoch: 3 });
  await supervisorProcess.close();
});

test.concurrent("a supervisor that was stopped past its lease renews it if no other took it", async () => {
  await using sharedHome = await SharedHome.open();
  const supervisorProcess = await sharedHome.supervisorProcess("in_first");
  const { runId } = await supervisorProcess.spawn(
    sharedHome.script('echo up; read a; echo "got $a"; read b; exit 6'),
  );
  await supervisorProcess.waitForOutput("up");
  await supervisorProcess.suspend();
  sharedHome.expireLeases(defaults.leaseMs);
  const other = await sharedHome.supervisor("in_other");
  expect((await other.reconcile()).decisions).toMatchObject([{ row: "stalled", action: "leave" }]);
  supervisorProcess.resume();
  await supervisorProcess.write(runId, "one\n");
  await supervisorProcess.waitForOutput("got one");
  const now = Number(sharedHome.column(runId, "lease_expires_at"));
  await waitFor(
    "it has renewed its lease",
    () => Number(sharedHome.column(runId, "lease_expires_at")) > now + defaults.leaseMs,
    defaults.renewMs + 5_000,
  );
  expect((await other.reconcile()).decisions).toEqual([]);
  await supervisorProcess.write(runId, "two\n");
  expect((await supervisorProcess.receive("ended")).record).toMatchObject({
    exit: { code: 6 },
    leaseEpoch: 1,
  });
  expect(supervisorProcess.received("problem")).toEqual([]);
  await supervisorProcess.close();
});
