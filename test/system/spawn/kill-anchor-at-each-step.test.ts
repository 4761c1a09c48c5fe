import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import { findAnchorOf, interceptStarts, interruptedSupervisor, parentOf } from "./interrupted-supervisor.js";
import {
  forEachConcurrently,
  MARK_AND_SLEEP,
  SPAWN_STEPS,
  SpawnFixture,
  type SpawnHome,
  type SpawnStep,
} from "./spawn-fixture.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const REPEATS = repetitions(1, 150);
/** Most of the time is waiting. */
const AT_ONCE = 15;
const argv = ["/bin/sh", "-c", MARK_AND_SLEEP];

type KillStep = Exclude<SpawnStep, "inserted"> | "prepared";
type Target = "anchor" | "launcher" | "anchor and launcher";

/** Spawns a run whose anchor, launcher or both are killed at a step, and awaits its end. */
async function spawnAndKill(home: SpawnHome, step: KillStep, target: Target): Promise<void> {
  let armed = false;
  let launcher = 0;
  const interrupt = (here: KillStep, runId: string): void => {
    if (!armed || here !== step) return;
    armed = false;
    const anchor = target === "launcher" ? null : (anchorOf(home, runId) ?? findAnchorOf(runId, launcher));
    // Stopped before it is killed, so that it does not clean up in between.
    if (target !== "anchor") for (const signal of ["SIGSTOP", "SIGKILL"]) process.kill(launcher, signal);
    if (anchor !== null) process.kill(anchor, "SIGKILL");
  };
  const supervisor = await interruptedSupervisor(home, interrupt);
  const first = await supervisor.spawn({ io: "pipe", argv: ["/bin/cat"] });
  launcher = parentOf((await supervisor.getRun(first.runId))?.anchor?.pid ?? 0);
  await first.closeStdin();
  await first.wait();

  armed = true;
  const options = { graceMs: 100, ownerLossMs: 200, env: { MARKS: home.marks } };
  const run = await supervisor.spawn({ io: "pipe", argv }, options).catch(() => null);
  if (run !== null) interrupt("running", run.runId);
  // An unaffected run is cancelled; the others end by themselves. A start may have been repeated.
  if (target === "launcher" || step === "asked") await run?.cancel({ actor: "test" });
  await run?.wait();
  // A spawn may be refused before its record has ended.
  await waitFor(async () => (await supervisor.listRuns({ states: OPEN_RUN_STATES })).length === 0, 10_000);
  // The next run works.
  const next = await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] });
  expect((await next.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  await supervisor.close();
}

function anchorOf(home: SpawnHome, runId: string): number | null {
  try {
    const path = join(home.path, "instances", home.instanceId, "runs", runId, "anchor.json");
    return (JSON.parse(readFileSync(path, "utf8")) as { anchor: { pid: number } }).anchor.pid;
  } catch {
    return null;
  }
}

/** The possible ends of a run when its anchor or launcher is killed. */
function possibleReasons(step: KillStep, target: Target): readonly string[] {
  // A launcher is needed only to start an anchor; without it, the start is repeated.
  if (step === "prepared") return ["manual-cancel", "spawn-error"];
  // The anchor may have answered just before.
  if (step === "asked") return ["manual-cancel", "spawn-error", "lost"];
  if (target === "launcher") return ["manual-cancel"];
  return mayRun(step) ? ["lost"] : ["spawn-error", "lost"];
}

/** Does this in several homes, a few at a time, and checks them afterwards. */
async function killAndCheck(target: Target, names: readonly KillStep[]): Promise<void> {
  interceptStarts();
  const fixture = await SpawnFixture.open();
  const scenes = names.flatMap((name) => Array.from({ length: REPEATS }, (_, at) => ({ name, at })));
  const homes = await Promise.all(
    scenes.map(async ({ name, at }) => ({ name, home: await fixture.home(`${name}${at}`) })),
  );
  await forEachConcurrently(AT_ONCE, homes, ({ name, home }) => spawnAndKill(home, name, target));
  await fixture.runsGone(0);
  const ends: Record<string, number> = {};
  for (const { name, home } of homes) {
    const records = await fixture.recoverAndCheck(home);
    expect(records).toHaveLength(1);
    for (const record of records) {
      const { reason = "", detail = null } = record.exit ?? {};
      expect(possibleReasons(name, target), detail ?? name).toContain(reason);
      ends[reason] = (ends[reason] ?? 0) + 1;
      // Without GO the command did not run; with GO it may have died before its first instruction.
      if (reason === "spawn-error" || (reason === "lost" && !mayRun(name)))
        expect(fixture.hasRun(home, record)).toBe(false);
    }
  }
  await fixture.expectNoProcesses();
  console.log(`${target}, ${names.join(" ")}: ${homes.length} kills;`, ends);
}

function mayRun(step: KillStep): boolean {
  return SPAWN_STEPS.find(({ name }) => name === step)?.runs ?? false;
}

const withAnchor = SPAWN_STEPS.map(({ name }) => name).filter((name) => name !== "inserted");
// Before START there is no anchor.
const steps: readonly KillStep[] = ["prepared", ...withAnchor];

test("the anchor killed at any step: one correct end, no process left, and the next run works", async () => {
  await killAndCheck("anchor", withAnchor);
});

test("the launcher killed at any step: the run continues or never began, and the next one works", async () => {
  await killAndCheck("launcher", steps);
});

test("anchor and launcher killed together, at any step: the verified tree is killed, the run is lost", async () => {
  await killAndCheck("anchor and launcher", withAnchor);
});
