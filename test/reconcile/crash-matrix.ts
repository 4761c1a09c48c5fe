import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { SpawnOptions, Supervisor } from "../../src/supervisor/api.js";
import { isAlive, signal, until, type Living } from "../tree/living.js";
import { tiers, type Tier } from "../tree/seat.js";
import { House } from "./house.js";
import type { Keeper } from "./keeper.js";
import type { Records } from "./records.js";
import { steps, type StepName } from "./steps.js";

export const soak = process.env["HOLDFAST_SOAK"] === "1";
/** Runs that are at the step when somebody is killed. Every other one ends by its own policy when nobody comes. */
const RUNS = soak ? 6 : 3;
const ROUNDS = soak ? 10 : 1;
const graceMs = 100;
const ownerLossMs = 100;
/** What a loaded machine may take beyond its policy. */
const slackMs = 8_000;

/** Who is killed. Without its launcher, only a cgroup can prove that nobody is left. */
export interface Target {
  readonly name: string;
  readonly tier: Tier;
  readonly supervisor: boolean;
  readonly anchor: boolean;
  readonly launcher: boolean;
  /** Its anchors are stopped (SIGSTOP) instead of killed. */
  readonly stopped?: true;
}
const supervisorOnly: Target = {
  name: "the supervisor",
  tier: tiers.none,
  supervisor: true,
  anchor: false,
  launcher: false,
};
const targets: readonly Target[] = [
  supervisorOnly,
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
const stoppedTargets: readonly Target[] = [
  { ...supervisorOnly, name: "no process, the anchors stopped", supervisor: false, stopped: true },
  { ...supervisorOnly, name: "the supervisor, the anchors stopped", stopped: true },
];
/** Until a stopped anchor is noticed and continued: by the launcher after ten seconds, in looks two seconds apart. */
const noticedMs = 14_000;

function hasAnswered(step: Phase["steps"][number]): boolean {
  return step !== "inserted" && step !== "asked";
}

function slackOf({ stopped }: Target): number {
  return stopped === true ? slackMs + noticedMs : slackMs;
}

/** Who stands at the step, with which runs. Their anchors and their launcher are those of who started them. */
interface Standing {
  readonly keeper: Keeper;
  readonly runIds: readonly string[];
}

interface Phase {
  readonly name: string;
  readonly steps: readonly (StepName | typeof AT_REST)[];
  bring(house: House, step: StepName | typeof AT_REST): Promise<Standing>;
  /** Its runs have the two policies of `options`. */
  readonly mixed?: true;
  readonly reasons: readonly string[];
}

const ORIGIN = "in_victim";
/** Not a step of anything: everybody is there, and nothing is going on. */
const AT_REST = "at rest";

function options(at: number): SpawnOptions {
  return at % 2 === 0 ? { graceMs, ownerLossMs } : { graceMs, onOrphan: "terminate" };
}

async function spawned(house: House, given: (at: number) => SpawnOptions): Promise<Standing> {
  const keeper = await house.keeper(ORIGIN);
  const runIds: string[] = [];
  for (let at = 0; at < RUNS; at++) runIds.push((await keeper.spawn(house.scenario, given(at))).runId);
  await until(
    "everybody is there",
    () => house.crowd.others().filter(({ argv }) => argv[0] === "sleep").length === 4 * RUNS,
  );
  return { keeper, runIds };
}

async function stopAt(keeper: Keeper, step: Phase["steps"][number], runs = RUNS): Promise<void> {
  if (step !== AT_REST) await keeper.stopAt(step, runs);
}

/** Runs whose owner is dead, and a thief on its way to them. */
async function thief(
  house: House,
  step: Phase["steps"][number],
  silenced: boolean,
  terminate: boolean,
): Promise<Standing> {
  const { keeper: first, runIds } = await spawned(house, () => ({ graceMs, onOrphan: "adopt" }));
  await first.kill();
  if (silenced) await house.silence(ORIGIN);
  house.expireLeases();
  const keeper = await house.keeper("in_thief");
  // One look for all of them.
  await stopAt(keeper, step, step === "looking" ? 1 : RUNS);
  keeper.order("reconcile", { scope: { terminate } });
  await keeper.arrived();
  return { keeper, runIds };
}

/** Runs whose supervisor was killed, and so was its first replacement at the same step; the second one stands there. */
async function replacement(house: House, step: Phase["steps"][number]): Promise<Standing> {
  const { keeper: first, runIds } = await spawned(house, () => ({ graceMs }));
  let keeper = first;
  for (let replaced = 0; replaced < 2; replaced++) {
    await keeper.kill();
    keeper = await house.keeper(ORIGIN);
    await stopAt(keeper, step, step === "looking" ? 1 : RUNS);
    keeper.order("reconcile");
    await keeper.arrived();
  }
  return { keeper, runIds };
}

const phases: readonly Phase[] = [
  {
    name: "spawn",
    steps: steps.spawn,
    bring: async (house, step) => {
      const keeper = await house.keeper(ORIGIN);
      await stopAt(keeper, step);
      for (let at = 0; at < RUNS; at++)
        keeper.order("spawn", { input: house.scenario, options: options(at) });
      await keeper.arrived();
      return { keeper, runIds: house.runsOf(ORIGIN) };
    },
    mixed: true,
    reasons: ["spawn-error", "owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "run",
    steps: [AT_REST],
    bring: async (house) => {
      const standing = await spawned(house, options);
      await standing.keeper.stop();
      return standing;
    },
    mixed: true,
    // The last by a supervisor that goes on with anchors that were stopped.
    reasons: ["owner-lost", "lost", "manual-cancel"],
  },
  {
    name: "terminate",
    steps: steps.terminate,
    bring: async (house, step) => {
      const { keeper, runIds } = await spawned(house, options);
      await stopAt(keeper, step);
      for (const runId of runIds) keeper.cancel(runId);
      await keeper.arrived();
      return { keeper, runIds };
    },
    mixed: true,
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "finalize",
    steps: steps.finalize,
    bring: async (house, step) => {
      const { keeper, runIds } = await spawned(house, options);
      await stopAt(keeper, step);
      for (const runId of runIds) keeper.order("write", { runId, data: "exit 7\n" });
      await keeper.arrived();
      return { keeper, runIds };
    },
    reasons: ["ownership-escape"],
  },
  {
    name: "steal",
    steps: ["looking", "stealing", "stolen", "attached"],
    bring: (house, step) => thief(house, step, false, false),
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "take-up by a replacement gateway",
    steps: ["looking", "stealing", "stolen", "attached"],
    bring: replacement,
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
  {
    name: "end after a steal",
    steps: ["stop-asked", "end-saving", "end-saved"],
    bring: (house, step) => thief(house, step, false, true),
    reasons: ["manual-cancel", "owner-lost", "lost"],
  },
];

/** Steals of runs that nobody answers for: only the thief can be killed. */
const sweep: Phase = {
  name: "sweep after a steal",
  steps: ["stealing", "stolen", "reaping", "reaped", "end-saving", "end-saved"],
  bring: (house, step) => thief(house, step, true, false),
  reasons: ["lost"],
};

const counts = { kills: 0, runs: 0, survivors: 0, stuck: 0, ends: {} as Record<string, number> };

async function strike(house: House, target: Target, { keeper }: Standing): Promise<void> {
  const anchors = house.anchors(ORIGIN);
  // A child at the gate still has its anchor's command line; it is the run's first process, and stays as it is.
  const isChild = ({ parentPid }: Living): boolean => anchors.some(({ pid }) => pid === parentPid);
  if (target.stopped === true)
    for (const one of anchors.filter((each) => !isChild(each))) signal(one, "SIGSTOP");
  if (target.launcher) await house.silence(ORIGIN);
  else if (target.anchor) for (const one of anchors) signal(one, "SIGKILL");
  if (target.anchor) await until("they are gone", () => !anchors.some(isAlive));
  if (target.supervisor) await keeper.kill();
  else await goOn(house, keeper, slackOf(target));
  counts.kills++;
}

/** Who lost its anchor settles that by itself; what could be started all the same is ended. */
async function goOn(house: House, keeper: Keeper, withinMs: number): Promise<void> {
  keeper.goOn();
  await until(
    "it has settled its runs",
    () => {
      for (const { run_id } of house.sql(
        "select run_id from runs where owner_instance_id = ? and state = 'running'",
        keeper.instanceId,
      ))
        keeper.cancel(String(run_id));
      return house.openRuns(keeper.instanceId) === 0;
    },
    withinMs,
  );
  await keeper.kill();
}

/** Zero survivors, zero strangers, zero stuck, one end each. */
async function settle(house: House, { reasons }: Phase, { runIds }: Standing, target: Target): Promise<void> {
  house.expireLeases();
  const { supervisor } = await house.gateway();
  await endAll(house, supervisor, slackOf(target));
  counts.stuck += house.openRuns();
  expect(house.openRuns(), "stuck").toBe(0);
  counts.survivors += house.crowd.others().length;
  expect(house.crowd.others(), "survivors").toEqual([]);
  expect(house.crowd.missing(), "the bystander").toEqual([]);
  for (const runId of runIds) {
    const record = await supervisor.getRun(runId);
    expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
    const reason = record?.exit?.reason ?? "";
    expect(reasons, record?.exit?.detail ?? "").toContain(reason);
    counts.ends[reason] = (counts.ends[reason] ?? 0) + 1;
    counts.runs++;
    const types = house.eventTypes(runId);
    expect(
      types.filter((type) => type === "exit"),
      types.join(" "),
    ).toHaveLength(1);
  }
  const once = house.everything();
  await supervisor.reconcile();
  expect(house.everything()).toEqual(once);
  await house.tidy(supervisor);
}

/** What is taken over alive is ended; what was just ending by itself is found at the next look. */
async function endAll(house: House, supervisor: Supervisor, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (house.openRuns() > 0 && performance.now() < deadline) {
    for (const { runId } of await supervisor.listRuns({ states: ["starting", "running"] }))
      await supervisor.run(runId)?.cancel();
    await setTimeout(50);
    await supervisor.reconcile();
  }
}

/** Those whose policy says so are gone although nobody has come. */
async function endedAlone(house: House, target: Target): Promise<void> {
  const others = 5 * Math.floor(RUNS / 2);
  const withinMs = ownerLossMs + graceMs + slackOf(target);
  await until("they have ended alone", () => house.crowd.others().length <= others, withinMs);
}

async function play(
  phase: Phase,
  step: Phase["steps"][number],
  target: Target,
  records: Records,
): Promise<void> {
  await using house = await House.open(target.tier, records);
  const standing = await phase.bring(house, step);
  await strike(house, target, standing);
  await records.struck?.();
  if (phase.mixed === true && !target.launcher) await endedAlone(house, target);
  await settle(house, phase, standing, target);
}

/** Each killed at each step, with records of its own every time. */
export function crashMatrix(
  name: string,
  records: () => Promise<Records>,
  wanted: (target: Target, phase: string, step: string) => boolean = () => true,
): void {
  const plays = (phase: Phase, step: Phase["steps"][number], target: Target): void => {
    if (!wanted(target, phase.name, step)) return;
    test(`of ${target.name}, ${phase.name}: ${step}`, async ({ skip }) => {
      if (target.tier.whyNot !== null) skip(target.tier.whyNot);
      for (let round = 0; round < ROUNDS; round++) {
        const its = await records();
        try {
          await play(phase, step, target, its);
        } finally {
          await its.dispose?.();
        }
      }
    });
  };
  describe.concurrent(`SIGKILL, records in ${name}`, () => {
    for (const target of targets)
      for (const phase of phases)
        for (const step of phase.steps)
          // There is no anchor yet.
          if (!target.anchor || step !== "inserted") plays(phase, step, target);
    for (const target of stoppedTargets)
      for (const phase of phases)
        // The first step at which anchors have answered, and the last: each takes as long as it takes to notice.
        for (const step of new Set([phase.steps.find(hasAnswered), phase.steps.at(-1)]))
          if (step !== undefined) plays(phase, step, target);
    for (const step of sweep.steps) plays(sweep, step, { ...supervisorOnly, tier: tiers.cgroup });

    afterAll(() => {
      const { kills, runs, survivors, stuck, ends } = counts;
      const told = `${kills} kills with ${runs} runs, ${survivors} survivors, ${stuck} stuck`;
      console.log(`crash matrix, records in ${name}: ${told}; ends ${JSON.stringify(ends)}`);
    });
  });
}
