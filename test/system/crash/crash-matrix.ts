import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { isAlive, type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { repetitions } from "../../support/scale.js";
import type { RecordAccess } from "../../support/supervisor/record-access.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";
import {
  type CrashCase,
  type CrashPhase,
  GRACE_MS,
  type KillTarget,
  ORIGIN,
  OWNER_LOSS_MS,
  type PausedRuns,
  RUN_COUNT,
  slackOf,
} from "./crash-cases.js";

const ROUNDS = repetitions(1, 10);

const counts = { kills: 0, runs: 0, survivors: 0, stuck: 0, ends: {} as Record<string, number> };

async function killTarget(
  sharedHome: SharedHome,
  target: KillTarget,
  { supervisorProcess }: PausedRuns,
): Promise<void> {
  const anchors = sharedHome.anchors(ORIGIN);
  // A child at the gate still has the command line of its anchor; it is the leader of the run and is not stopped.
  const isChild = ({ parentPid }: LiveProcess): boolean => anchors.some(({ pid }) => pid === parentPid);
  if (target.stopped === true)
    for (const one of anchors.filter((each) => !isChild(each))) signalProcess(one, "SIGSTOP");
  if (target.launcher) await sharedHome.stopAnchors(ORIGIN);
  else if (target.anchor) for (const one of anchors) signalProcess(one, "SIGKILL");
  if (target.anchor) await waitFor("the anchors are gone", () => !anchors.some(isAlive));
  if (target.supervisor) await supervisorProcess.kill();
  else await waitForOwnRecovery(sharedHome, supervisorProcess, slackOf(target));
  counts.kills++;
}

/** A supervisor that lost its anchors finalizes their runs; runs that could be started nevertheless are stopped. */
async function waitForOwnRecovery(
  sharedHome: SharedHome,
  supervisorProcess: SupervisorProcess,
  withinMs: number,
): Promise<void> {
  supervisorProcess.resume();
  await waitFor(
    "it has ended its runs",
    () => {
      for (const { run_id } of sharedHome.sql(
        "select run_id from runs where owner_instance_id = ? and state = 'running'",
        supervisorProcess.instanceId,
      ))
        supervisorProcess.cancel(String(run_id));
      return sharedHome.openRuns(supervisorProcess.instanceId) === 0;
    },
    withinMs,
  );
  await supervisorProcess.kill();
}

/** No survivor, no signal to another process, no open run, one end per run. */
async function reconcileAndCheck(
  sharedHome: SharedHome,
  { reasons }: CrashPhase,
  { runIds }: PausedRuns,
  target: KillTarget,
): Promise<void> {
  sharedHome.expireLeases();
  const { supervisor } = await sharedHome.gateway();
  await stopAllRuns(sharedHome, supervisor, slackOf(target));
  counts.stuck += sharedHome.openRuns();
  expect(sharedHome.openRuns(), "stuck").toBe(0);
  counts.survivors += sharedHome.tokenProcesses.ofRuns().length;
  expect(sharedHome.tokenProcesses.ofRuns(), "survivors").toEqual([]);
  expect(sharedHome.tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  for (const runId of runIds) {
    const record = await supervisor.getRun(runId);
    expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
    const reason = record?.exit?.reason ?? "";
    expect(reasons, record?.exit?.detail ?? "").toContain(reason);
    counts.ends[reason] = (counts.ends[reason] ?? 0) + 1;
    counts.runs++;
    const types = sharedHome.eventTypes(runId);
    expect(
      types.filter((type) => type === "exit"),
      types.join(" "),
    ).toHaveLength(1);
  }
  const once = sharedHome.dumpStore();
  await supervisor.reconcile();
  expect(sharedHome.dumpStore()).toEqual(once);
  await sharedHome.stopAllRuns(supervisor);
}

/** Stops the runs that are taken over alive; a run that is just ending is found by the next reconciliation. */
async function stopAllRuns(sharedHome: SharedHome, supervisor: Supervisor, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (sharedHome.openRuns() > 0 && performance.now() < deadline) {
    for (const { runId } of await supervisor.listRuns({ states: ["starting", "running"] }))
      await supervisor.run(runId)?.cancel();
    await setTimeout(50);
    await supervisor.reconcile();
  }
}

/** The runs with `ownerLossMs` end without an owner. */
async function waitForPolicyEnd(sharedHome: SharedHome, target: KillTarget): Promise<void> {
  const others = 5 * Math.floor(RUN_COUNT / 2);
  const withinMs = OWNER_LOSS_MS + GRACE_MS + slackOf(target);
  await waitFor(
    "the runs without an owner have ended",
    () => sharedHome.tokenProcesses.ofRuns().length <= others,
    withinMs,
  );
}

async function runCase({ phase, step, target }: CrashCase, records: RecordAccess): Promise<void> {
  await using sharedHome = await SharedHome.open(target.tier, records);
  const standing = await phase.bring(sharedHome, step);
  await killTarget(sharedHome, target, standing);
  await records.struck?.();
  if (phase.mixed === true && !target.launcher) await waitForPolicyEnd(sharedHome, target);
  await reconcileAndCheck(sharedHome, phase, standing, target);
}

/** Each case with records of its own. */
export function crashMatrix(
  name: string,
  records: () => Promise<RecordAccess>,
  cases: readonly CrashCase[],
): void {
  describe.concurrent(`SIGKILL, records in ${name}`, () => {
    for (const one of cases)
      test(`of ${one.target.name}, ${one.phase.name}: ${one.step}`, async ({ skip }) => {
        const { tier } = one.target;
        if (tier.whyNot !== null) skip(tier.whyNot);
        for (let round = 0; round < ROUNDS; round++) {
          const its = await records();
          try {
            await runCase(one, its);
          } finally {
            await its.dispose?.();
          }
        }
      });

    afterAll(() => {
      const { kills, runs, survivors, stuck, ends } = counts;
      const told = `${kills} kills with ${runs} runs, ${survivors} survivors, ${stuck} stuck`;
      console.log(`crash matrix, records in ${name}: ${told}; ends ${JSON.stringify(ends)}`);
    });
  });
}
