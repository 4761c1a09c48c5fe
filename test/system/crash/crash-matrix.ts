import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { isAlive, type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import { repetitions, soak } from "../../support/scale.js";
import type { RecordAccess } from "../../support/supervisor/record-access.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import {
  SUPERVISOR_STEPS,
  type SupervisorProcess,
  type SupervisorStep,
} from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

/** Runs that are at the step when somebody is killed. Every other one ends by its own policy when nobody comes. */
const RUN_COUNT = repetitions(2, 6);
const ROUNDS = repetitions(1, 10);
const graceMs = 100;
const ownerLossMs = 100;
/** What a loaded machine may take beyond its policy. */
const SLACK_MS = 8_000;

/** Who is killed. Without its launcher, only a cgroup can prove that nobody is left. */
export interface KillTarget {
  readonly name: string;
  readonly tier: SandboxTier;
  readonly supervisor: boolean;
  readonly anchor: boolean;
  readonly launcher: boolean;
  /** Its anchors are stopped (SIGSTOP) instead of killed. */
  readonly stopped?: true;
}
const supervisorOnly: KillTarget = {
  name: "the supervisor",
  tier: tiers.none,
  supervisor: true,
  anchor: false,
  launcher: false,
};
const anchorTargets: readonly KillTarget[] = [
  { name: "the anchor", tier: tiers.none, supervisor: false, anchor: true, launcher: false },
  { name: "supervisor and anchor", tier: tiers.none, supervisor: true, anchor: true, launcher: false },
  {
    name: "supervisor, launcher and anchor",
    tier: tiers.cgroup,
    supervisor: true,
    anchor: true,
    launcher: true,
  },
];
/** Nobody is killed but the supervisor, if that: a stopped anchor is continued, by the supervisor or by the launcher. */
const stoppedTargets: readonly KillTarget[] = [
  { ...supervisorOnly, name: "no process, the anchors stopped", supervisor: false, stopped: true },
  { ...supervisorOnly, name: "the supervisor, the anchors stopped", stopped: true },
];
/** Until a stopped anchor is noticed and continued: by the launcher after ten seconds, in looks two seconds apart. */
const STOPPED_ANCHOR_MS = 14_000;

function hasAnswered(step: CrashPhase["steps"][number]): boolean {
  return step !== "inserted" && step !== "asked";
}

function slackOf({ stopped }: KillTarget): number {
  return stopped === true ? SLACK_MS + STOPPED_ANCHOR_MS : SLACK_MS;
}

/** Who stands at the step, with which runs. Their anchors and their launcher are those of who started them. */
interface PausedRuns {
  readonly keeper: SupervisorProcess;
  readonly runIds: readonly string[];
}

interface CrashPhase {
  readonly name: string;
  readonly steps: readonly (SupervisorStep | typeof IDLE)[];
  bring(sharedHome: SharedHome, step: SupervisorStep | typeof IDLE): Promise<PausedRuns>;
  /** Its runs have the two policies of `options`. */
  readonly mixed?: true;
  readonly reasons: readonly string[];
}

const ORIGIN = "in_victim";
/** Not a step of anything: everybody is there, and nothing is going on. */
const IDLE = "at rest";

function options(at: number): SpawnOptions {
  return at % 2 === 0 ? { graceMs, ownerLossMs } : { graceMs, onOrphan: "terminate" };
}

async function spawnAndPause(
  sharedHome: SharedHome,
  given: (at: number) => SpawnOptions,
): Promise<PausedRuns> {
  const supervisorProcess = await sharedHome.supervisorProcess(ORIGIN);
  const runIds: string[] = [];
  for (let at = 0; at < RUN_COUNT; at++)
    runIds.push((await supervisorProcess.spawn(sharedHome.scenario, given(at))).runId);
  await waitFor(
    "everybody is there",
    () =>
      sharedHome.tokenProcesses.ofRuns().filter(({ argv }) => argv[0] === "sleep").length === 4 * RUN_COUNT,
  );
  return { keeper: supervisorProcess, runIds };
}

async function pauseAt(
  supervisorProcess: SupervisorProcess,
  step: CrashPhase["steps"][number],
  runs = RUN_COUNT,
): Promise<void> {
  if (step !== IDLE) await supervisorProcess.pauseAt(step, runs);
}

/** Runs whose owner is dead, and a thief on its way to them. */
async function pausedThief(
  sharedHome: SharedHome,
  step: CrashPhase["steps"][number],
  silenced: boolean,
  terminate: boolean,
): Promise<PausedRuns> {
  const { keeper: first, runIds } = await spawnAndPause(sharedHome, () => ({ graceMs, onOrphan: "adopt" }));
  await first.kill();
  if (silenced) await sharedHome.stopAnchors(ORIGIN);
  sharedHome.expireLeases();
  const supervisorProcess = await sharedHome.supervisorProcess("in_thief");
  // One look for all of them.
  await pauseAt(supervisorProcess, step, step === "looking" ? 1 : RUN_COUNT);
  supervisorProcess.order("reconcile", { scope: { terminate } });
  await supervisorProcess.waitUntilPaused();
  return { keeper: supervisorProcess, runIds };
}

/** Runs whose supervisor was killed, and so was its first replacement at the same step; the second one stands there. */
async function pausedReplacement(
  sharedHome: SharedHome,
  step: CrashPhase["steps"][number],
): Promise<PausedRuns> {
  const { keeper: first, runIds } = await spawnAndPause(sharedHome, () => ({ graceMs }));
  let supervisorProcess = first;
  for (let replaced = 0; replaced < 2; replaced++) {
    await supervisorProcess.kill();
    supervisorProcess = await sharedHome.supervisorProcess(ORIGIN);
    await pauseAt(supervisorProcess, step, step === "looking" ? 1 : RUN_COUNT);
    supervisorProcess.order("reconcile");
    await supervisorProcess.waitUntilPaused();
  }
  return { keeper: supervisorProcess, runIds };
}

const phases: readonly CrashPhase[] = [
  {
    name: "spawn",
    steps: SUPERVISOR_STEPS.spawn,
    bring: async (sharedHome, step) => {
      const supervisorProcess = await sharedHome.supervisorProcess(ORIGIN);
      await pauseAt(supervisorProcess, step);
      for (let at = 0; at < RUN_COUNT; at++)
        supervisorProcess.order("spawn", { input: sharedHome.scenario, options: options(at) });
      await supervisorProcess.waitUntilPaused();
      return { keeper: supervisorProcess, runIds: sharedHome.runsOf(ORIGIN) };
    },
    mixed: true,
    reasons: ["spawn-error", "owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "run",
    steps: [IDLE],
    bring: async (sharedHome) => {
      const standing = await spawnAndPause(sharedHome, options);
      await standing.keeper.suspend();
      return standing;
    },
    mixed: true,
    // The last by a supervisor that goes on with anchors that were stopped.
    reasons: ["owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "terminate",
    steps: SUPERVISOR_STEPS.terminate,
    bring: async (sharedHome, step) => {
      const { keeper: supervisorProcess, runIds } = await spawnAndPause(sharedHome, options);
      await pauseAt(supervisorProcess, step);
      for (const runId of runIds) supervisorProcess.cancel(runId);
      await supervisorProcess.waitUntilPaused();
      return { keeper: supervisorProcess, runIds };
    },
    mixed: true,
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "finalize",
    steps: SUPERVISOR_STEPS.finalize,
    bring: async (sharedHome, step) => {
      const { keeper: supervisorProcess, runIds } = await spawnAndPause(sharedHome, options);
      await pauseAt(supervisorProcess, step);
      for (const runId of runIds) supervisorProcess.order("write", { runId, data: "exit 7\n" });
      await supervisorProcess.waitUntilPaused();
      return { keeper: supervisorProcess, runIds };
    },
    reasons: ["ownership-escape"],
  },
  {
    name: "steal",
    steps: ["looking", "stealing", "stolen", "attached"],
    bring: (sharedHome, step) => pausedThief(sharedHome, step, false, false),
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "take-up by a replacement gateway",
    steps: ["looking", "stealing", "stolen", "attached"],
    bring: pausedReplacement,
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "end after a steal",
    steps: ["stop-asked", "end-saving", "end-saved"],
    bring: (sharedHome, step) => pausedThief(sharedHome, step, false, true),
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
];

/** Steals of runs that nobody answers for: only the thief can be killed. */
const reapPhase: CrashPhase = {
  name: "sweep after a steal",
  steps: ["stealing", "stolen", "reaping", "reaped", "end-saving", "end-saved"],
  bring: (sharedHome, step) => pausedThief(sharedHome, step, true, false),
  reasons: ["lost"],
};

const counts = { kills: 0, runs: 0, survivors: 0, stuck: 0, ends: {} as Record<string, number> };

async function killTarget(
  sharedHome: SharedHome,
  target: KillTarget,
  { keeper: supervisorProcess }: PausedRuns,
): Promise<void> {
  const anchors = sharedHome.anchors(ORIGIN);
  // A child at the gate still has its anchor's command line; it is the run's first process, and stays as it is.
  const isChild = ({ parentPid }: LiveProcess): boolean => anchors.some(({ pid }) => pid === parentPid);
  if (target.stopped === true)
    for (const one of anchors.filter((each) => !isChild(each))) signalProcess(one, "SIGSTOP");
  if (target.launcher) await sharedHome.stopAnchors(ORIGIN);
  else if (target.anchor) for (const one of anchors) signalProcess(one, "SIGKILL");
  if (target.anchor) await waitFor("they are gone", () => !anchors.some(isAlive));
  if (target.supervisor) await supervisorProcess.kill();
  else await waitForOwnRecovery(sharedHome, supervisorProcess, slackOf(target));
  counts.kills++;
}

/** Who lost its anchor settles that by itself; what could be started all the same is ended. */
async function waitForOwnRecovery(
  sharedHome: SharedHome,
  supervisorProcess: SupervisorProcess,
  withinMs: number,
): Promise<void> {
  supervisorProcess.resume();
  await waitFor(
    "it has settled its runs",
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

/** Zero survivors, zero strangers, zero stuck, one end each. */
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

/** What is taken over alive is ended; what was just ending by itself is found at the next look. */
async function stopAllRuns(sharedHome: SharedHome, supervisor: Supervisor, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (sharedHome.openRuns() > 0 && performance.now() < deadline) {
    for (const { runId } of await supervisor.listRuns({ states: ["starting", "running"] }))
      await supervisor.run(runId)?.cancel();
    await setTimeout(50);
    await supervisor.reconcile();
  }
}

/** Those whose policy says so are gone although nobody has come. */
async function waitForPolicyEnd(sharedHome: SharedHome, target: KillTarget): Promise<void> {
  const others = 5 * Math.floor(RUN_COUNT / 2);
  const withinMs = ownerLossMs + graceMs + slackOf(target);
  await waitFor("they have ended alone", () => sharedHome.tokenProcesses.ofRuns().length <= others, withinMs);
}

async function runCase(
  phase: CrashPhase,
  step: CrashPhase["steps"][number],
  target: KillTarget,
  records: RecordAccess,
): Promise<void> {
  await using sharedHome = await SharedHome.open(target.tier, records);
  const standing = await phase.bring(sharedHome, step);
  await killTarget(sharedHome, target, standing);
  await records.struck?.();
  if (phase.mixed === true && !target.launcher) await waitForPolicyEnd(sharedHome, target);
  await reconcileAndCheck(sharedHome, phase, standing, target);
}

/** Each killed at each step, with records of its own every time. */
export function crashMatrix(
  name: string,
  records: () => Promise<RecordAccess>,
  wanted: (target: KillTarget, phase: string, step: string) => boolean = () => true,
): void {
  const plays = (phase: CrashPhase, step: CrashPhase["steps"][number], target: KillTarget): void => {
    if (!wanted(target, phase.name, step)) return;
    test(`of ${target.name}, ${phase.name}: ${step}`, async ({ skip }) => {
      if (target.tier.whyNot !== null) skip(target.tier.whyNot);
      for (let round = 0; round < ROUNDS; round++) {
        const its = await records();
        try {
          await runCase(phase, step, target, its);
        } finally {
          await its.dispose?.();
        }
      }
    });
  };
  describe.concurrent(`SIGKILL, records in ${name}`, () => {
    let played = 0;
    for (const phase of phases)
      for (const step of phase.steps) {
        // There is no anchor yet.
        const others = anchorTargets.filter(() => step !== "inserted");
        // The supervisor is killed at each step, and with it the others in turn: each of them in a soak run.
        const chosen = soak ? others : others.slice(played % 3, (played % 3) + 1);
        for (const target of [supervisorOnly, ...chosen]) plays(phase, step, target);
        played++;
      }
    for (const target of stoppedTargets)
      for (const phase of phases)
        // The first step at which anchors have answered, and the last: each takes as long as it takes to notice.
        for (const step of new Set([phase.steps.find(hasAnswered), phase.steps.at(-1)]))
          if (step !== undefined) plays(phase, step, target);
    for (const step of reapPhase.steps) plays(reapPhase, step, { ...supervisorOnly, tier: tiers.cgroup });

    afterAll(() => {
      const { kills, runs, survivors, stuck, ends } = counts;
      const told = `${kills} kills with ${runs} runs, ${survivors} survivors, ${stuck} stuck`;
      console.log(`crash matrix, records in ${name}: ${told}; ends ${JSON.stringify(ends)}`);
    });
  });
}
