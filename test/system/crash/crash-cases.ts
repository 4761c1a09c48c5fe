import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import { repetitions } from "../../support/scale.js";
import type { SharedHome } from "../../support/supervisor/shared-home.js";
import {
  SUPERVISOR_STEPS,
  type SupervisorProcess,
  type SupervisorStep,
} from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

/** Runs that are at the step at the time of the kill. Every other one ends by its policy when no owner comes back. */
export const RUN_COUNT = repetitions(2, 6);
export const GRACE_MS = 100;
export const OWNER_LOSS_MS = 100;
/** Time that a loaded machine may take beyond the policy. */
const SLACK_MS = 8_000;

/** The processes to kill. Without a launcher, only a cgroup can prove that no process is left. */
export interface KillTarget {
  readonly name: string;
  readonly tier: SandboxTier;
  readonly supervisor: boolean;
  readonly anchor: boolean;
  readonly launcher: boolean;
  /** The anchors are stopped (SIGSTOP) instead of killed. */
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
/** A stopped anchor is continued by the supervisor or, when that was killed, by the launcher. */
const stoppedTargets: readonly KillTarget[] = [
  { ...supervisorOnly, name: "no process, the anchors stopped", supervisor: false, stopped: true },
  { ...supervisorOnly, name: "the supervisor, the anchors stopped", stopped: true },
];
/** Time until a stopped anchor is continued: the launcher probes every two seconds and acts after ten. */
const STOPPED_ANCHOR_MS = 14_000;

function hasAnswered(step: CrashPhase["steps"][number]): boolean {
  return step !== "inserted" && step !== "asked";
}

export function slackOf({ stopped }: KillTarget): number {
  return stopped === true ? SLACK_MS + STOPPED_ANCHOR_MS : SLACK_MS;
}

/** A supervisor that is paused at the step, with its runs. */
export interface PausedRuns {
  readonly supervisorProcess: SupervisorProcess;
  readonly runIds: readonly string[];
}

export interface CrashPhase {
  readonly name: string;
  readonly steps: readonly (SupervisorStep | typeof IDLE)[];
  bring(sharedHome: SharedHome, step: SupervisorStep | typeof IDLE): Promise<PausedRuns>;
  /** The runs have the two policies of `options`. */
  readonly mixed?: true;
  readonly reasons: readonly string[];
}

export const ORIGIN = "in_victim";
/** No step: all processes run, and nothing is being changed. */
const IDLE = "at rest";

function options(at: number): SpawnOptions {
  return at % 2 === 0
    ? { graceMs: GRACE_MS, ownerLossMs: OWNER_LOSS_MS }
    : { graceMs: GRACE_MS, onOrphan: "terminate" };
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
    "all processes of the runs are alive",
    () =>
      sharedHome.tokenProcesses.ofRuns().filter(({ argv }) => argv[0] === "sleep").length === 4 * RUN_COUNT,
  );
  return { supervisorProcess, runIds };
}

async function pauseAt(
  supervisorProcess: SupervisorProcess,
  step: CrashPhase["steps"][number],
  runs = RUN_COUNT,
): Promise<void> {
  if (step !== IDLE) await supervisorProcess.pauseAt(step, runs);
}

/** Runs whose owner is dead, and a supervisor that is paused while it steals their leases. */
async function pausedThief(
  sharedHome: SharedHome,
  step: CrashPhase["steps"][number],
  silenced: boolean,
  terminate: boolean,
): Promise<PausedRuns> {
  const { supervisorProcess: first, runIds } = await spawnAndPause(sharedHome, () => ({
    graceMs: GRACE_MS,
    onOrphan: "adopt",
  }));
  await first.kill();
  if (silenced) await sharedHome.stopAnchors(ORIGIN);
  sharedHome.expireLeases();
  const supervisorProcess = await sharedHome.supervisorProcess("in_thief");
  // All runs are looked up at once.
  await pauseAt(supervisorProcess, step, step === "looking" ? 1 : RUN_COUNT);
  supervisorProcess.order("reconcile", { scope: { terminate } });
  await supervisorProcess.waitUntilPaused();
  return { supervisorProcess, runIds };
}

/** Runs whose supervisor was killed, as was its first replacement at this step; the second one is paused there. */
async function pausedReplacement(
  sharedHome: SharedHome,
  step: CrashPhase["steps"][number],
): Promise<PausedRuns> {
  const { supervisorProcess: first, runIds } = await spawnAndPause(sharedHome, () => ({ graceMs: GRACE_MS }));
  let supervisorProcess = first;
  for (let replaced = 0; replaced < 2; replaced++) {
    await supervisorProcess.kill();
    supervisorProcess = await sharedHome.supervisorProcess(ORIGIN);
    await pauseAt(supervisorProcess, step, step === "looking" ? 1 : RUN_COUNT);
    supervisorProcess.order("reconcile");
    await supervisorProcess.waitUntilPaused();
  }
  return { supervisorProcess, runIds };
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
      return { supervisorProcess, runIds: sharedHome.runsOf(ORIGIN) };
    },
    mixed: true,
    reasons: ["spawn-error", "owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "run",
    steps: [IDLE],
    bring: async (sharedHome) => {
      const standing = await spawnAndPause(sharedHome, options);
      await standing.supervisorProcess.suspend();
      return standing;
    },
    mixed: true,
    // The last by a supervisor that continues stopped anchors.
    reasons: ["owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "terminate",
    steps: SUPERVISOR_STEPS.terminate,
    bring: async (sharedHome, step) => {
      const { supervisorProcess, runIds } = await spawnAndPause(sharedHome, options);
      await pauseAt(supervisorProcess, step);
      for (const runId of runIds) supervisorProcess.cancel(runId);
      await supervisorProcess.waitUntilPaused();
      return { supervisorProcess, runIds };
    },
    mixed: true,
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "finalize",
    steps: SUPERVISOR_STEPS.finalize,
    bring: async (sharedHome, step) => {
      const { supervisorProcess, runIds } = await spawnAndPause(sharedHome, options);
      await pauseAt(supervisorProcess, step);
      for (const runId of runIds) supervisorProcess.order("write", { runId, data: "exit 7\n" });
      await supervisorProcess.waitUntilPaused();
      return { supervisorProcess, runIds };
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

/** Steals of runs without an anchor: only the stealing supervisor can be killed. */
const reapPhase: CrashPhase = {
  name: "sweep after a steal",
  steps: ["stealing", "stolen", "reaping", "reaped", "end-saving", "end-saved"],
  bring: (sharedHome, step) => pausedThief(sharedHome, step, true, false),
  reasons: ["lost"],
};

/** One test: the target is killed when the runs of the phase are at the step. */
export interface CrashCase {
  readonly phase: CrashPhase;
  readonly step: CrashPhase["steps"][number];
  readonly target: KillTarget;
}

/** The targets that can be killed at a step. There is no anchor before the first answer. */
function targetsAt(step: CrashCase["step"]): readonly KillTarget[] {
  return step === "inserted" ? [supervisorOnly] : [supervisorOnly, ...anchorTargets];
}

const steps = phases.flatMap((phase) => phase.steps.map((step) => ({ phase, step })));
const killCases: readonly CrashCase[] = steps.flatMap(({ phase, step }) =>
  targetsAt(step).map((target) => ({ phase, step, target })),
);
/** At the first step at which anchors have answered, and at the last: each waits until the stop is noticed. */
const stopCases: readonly CrashCase[] = stoppedTargets.flatMap((target) =>
  phases.flatMap((phase) =>
    [...new Set([phase.steps.find(hasAnswered), phase.steps.at(-1)])].flatMap((step) =>
      step === undefined ? [] : [{ phase, step, target }],
    ),
  ),
);
const reapCases: readonly CrashCase[] = reapPhase.steps.map((step) => ({
  phase: reapPhase,
  step,
  target: { ...supervisorOnly, tier: tiers.cgroup },
}));

/** Every combination, for a soak run. */
export const allCases: readonly CrashCase[] = [...killCases, ...stopCases, ...reapCases];

/**
 * Every second step with one of its targets, in turn; each way of stopped anchors; one step of a reap. The tests of
 * system/spawn kill supervisor and anchor at every step of a spawn.
 */
export const someCases: readonly CrashCase[] = [
  ...steps
    .filter((_, at) => at % 2 === 1)
    .map(({ phase, step }, at) => {
      const targets = targetsAt(step);
      return { phase, step, target: targets[at % targets.length] ?? supervisorOnly };
    }),
  ...stoppedTargets.flatMap((target, at) =>
    stopCases.filter((one) => one.phase === phases[1 + at] && one.target === target).slice(0, 1),
  ),
  ...reapCases.filter(({ step }) => step === "reaped"),
];

/** The cases of a supervisor that is killed alone, at these steps: "phase: step". */
export function supervisorCases(...names: readonly string[]): readonly CrashCase[] {
  return [...killCases, ...reapCases].filter(
    ({ phase, step, target }) =>
      target.name === supervisorOnly.name && (names.length === 0 || names.includes(`${phase.name}: ${step}`)),
  );
}
