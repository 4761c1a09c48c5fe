import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../anchor/fake-peer.js";
import { atMost } from "./at-most.js";
import { announceStarts, findAnchorOf, interruptedSupervisor, parentOf } from "./interrupted.js";
import { type Home, INSTANCE, Scene, SCRIPT } from "./scene.js";
import { type StepName, steps } from "./steps.js";

const soak = process.env["HOLDFAST_SOAK"] === "1";
const REPEATS = soak ? 150 : 10;
const AT_ONCE = 10;
const LIVING = ["starting", "running", "exiting"] as const;
const argv = ["/bin/sh", "-c", SCRIPT];

type Target = "anchor" | "launcher" | "anchor and launcher";

/** Spawns one run whose anchor, launcher or both are killed at a step, and sees it end. */
async function spawnAndKill(home: Home, step: StepName, target: Target): Promise<void> {
  let armed = false;
  let launcher = 0;
  const interrupt = (here: StepName, runId: string): void => {
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
  // A run that goes on is to be ended; one that was hit ends by itself. A start may have been tried again.
  if (target === "launcher" || step === "asked") await run?.cancel({ actor: "test" });
  await run?.wait();
  // Who was refused a run may be told so before its record has ended.
  await until(async () => (await supervisor.listRuns({ states: LIVING })).length === 0, 10_000);
  // Whatever died, the next run works.
  const next = await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] });
  expect((await next.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  await supervisor.close();
}

function anchorOf(home: Home, runId: string): number | null {
  try {
    const path = join(home.path, "instances", INSTANCE, "runs", runId, "anchor.json");
    return (JSON.parse(readFileSync(path, "utf8")) as { anchor: { pid: number } }).anchor.pid;
  } catch {
    return null;
  }
}

/** How a run may end when somebody else than its supervisor dies. */
function possibleReasons(step: StepName, target: Target): readonly string[] {
  const opened = ["gone", "heard", "running"].includes(step);
  // A launcher is needed to start an anchor, not to have one; without it, a start is tried again.
  if (step === "inserted") return ["manual-cancel", "spawn-error"];
  // It may have answered just before.
  if (step === "asked") return ["manual-cancel", "spawn-error", "lost"];
  if (target === "launcher") return ["manual-cancel"];
  return opened ? ["lost"] : ["spawn-error", "lost"];
}

const targets: readonly Target[] = ["anchor", "launcher", "anchor and launcher"];

describe.each(targets)("the %s killed outright", (target) => {
  // There is no anchor yet.
  const possible = steps.filter(({ name }) => name !== "inserted" || target === "launcher");
  for (const { name, after, runs } of possible)
    test(`after ${after}: one true end, nothing left, and the next run works`, async () => {
      announceStarts();
      const scene = await Scene.open();
      const homes = await Promise.all(Array.from({ length: REPEATS }, (_, at) => scene.home(`v${at}`)));
      await atMost(AT_ONCE, homes, (home) => spawnAndKill(home, name, target));
      await scene.nothingLeft(0);
      const reasons = possibleReasons(name, target);
      const ends: Record<string, number> = {};
      for (const home of homes) {
        const records = await scene.settle(home);
        expect(records).toHaveLength(1);
        for (const record of records) {
          expect(reasons, record.exit?.detail ?? "").toContain(record.exit?.reason);
          const { reason = "" } = record.exit ?? {};
          ends[reason] = (ends[reason] ?? 0) + 1;
          // Without GO, not one instruction; with it, it may have died before its first.
          if (reason === "spawn-error" || (!runs && reason === "lost"))
            expect(scene.isMarked(home, record)).toBe(false);
        }
      }
      console.log(`${target}, ${name}: ${REPEATS} kills;`, ends);
    });
});
