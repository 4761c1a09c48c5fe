import { expect, test } from "vitest";
import { forEachConcurrently, nextSupervisor, SPAWN_STEPS, SpawnFixture } from "./spawn-fixture.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const VICTIMS = repetitions(1, 100);
/** Runs that are at the step when their supervisor is killed. */
const SPAWNS = 3;
const RANDOM = repetitions(4, 500);
const RESTARTS = repetitions(1, 30);
/** Victims that start at the same time: each is a Node process with a store of its own. */
const AT_ONCE = 3;
const OWNER_LOSS_MS = 200;
/** Termination adds its grace of 100 ms to the owner loss. */
const POLICY_MS = OWNER_LOSS_MS + 100;

/** Each step, with `count` state directories of its own. */
async function homesOfSteps(fixture: SpawnFixture, count: number) {
  const scenes = SPAWN_STEPS.flatMap((step) => Array.from({ length: count }, (_, at) => ({ step, at })));
  return Promise.all(
    scenes.map(async ({ step, at }) => ({ ...step, home: await fixture.home(`${step.name}${at}`) })),
  );
}

test("a supervisor killed outright at any step of a spawn: a command that may run ends by its policy", async () => {
  const fixture = await SpawnFixture.open();
  const victims = await homesOfSteps(fixture, VICTIMS);
  await forEachConcurrently(AT_ONCE, victims, ({ name, home }) =>
    fixture.kill(home, name, SPAWNS, OWNER_LOSS_MS),
  );
  await fixture.runsGone(POLICY_MS);
  for (const { name, home, recorded, runs, reason } of victims) {
    const records = await fixture.recoverAndCheck(home);
    expect(records, name).toHaveLength(recorded ? SPAWNS : 0);
    for (const record of records) {
      expect(record.exit?.reason, `${name}: ${record.exit?.detail}`).toBe(reason);
      expect(fixture.hasRun(home, record), name).toBe(runs);
      expect(record.startedAt !== null, name).toBe(runs);
    }
  }
  await fixture.expectNoProcesses();
});

test("a supervisor killed at any time at all, during several spawns: each run has one, correct end", async () => {
  const fixture = await SpawnFixture.open();
  const spawns = 4;
  const homes = await Promise.all(Array.from({ length: RANDOM }, (_, at) => fixture.home(`v${at}`)));
  await forEachConcurrently(AT_ONCE, homes, (home) => {
    const cold = Math.random() < 0.3;
    const step = `random:${Math.random().toFixed(4)}${cold ? ":cold" : ""}`;
    return fixture.kill(home, step, spawns, OWNER_LOSS_MS);
  });
  await fixture.runsGone(POLICY_MS);
  const counts: Record<string, number> = {};
  for (const home of homes) {
    const records = await fixture.recoverAndCheck(home);
    expect(records.length).toBeLessThanOrEqual(spawns);
    for (const record of records) {
      const ran = fixture.hasRun(home, record);
      expect(record.exit?.reason, record.exit?.detail ?? "").toBe(ran ? "owner-lost" : "spawn-error");
      const key = ran ? "had been started" : record.root === null ? "had no process on record" : "were gated";
      counts[key] = (counts[key] ?? 0) + 1;
    }
    counts["were not recorded"] = (counts["were not recorded"] ?? 0) + spawns - records.length;
  }
  await fixture.expectNoProcesses();
  console.log(`at random: ${RANDOM} kills in ${spawns} spawns each; of the runs`, counts);
});

test("a supervisor that restarts within the owner-loss time continues the runs that were started, and ends the others", async () => {
  const fixture = await SpawnFixture.open();
  await forEachConcurrently(
    AT_ONCE,
    await homesOfSteps(fixture, RESTARTS),
    async ({ name, home, recorded, runs }) => {
      await fixture.kill(home, name, SPAWNS, 60_000);
      const supervisor = await nextSupervisor(home);
      const found = await supervisor.recover();
      const ended = Promise.all(found.map((run) => run.wait()));
      if (runs) {
        expect(found, name).toHaveLength(SPAWNS);
        await waitFor(() => found.every((run) => fixture.hasRun(home, run)));
        for (const run of found) {
          expect(run.state, name).toBe("running");
          await run.cancel({ actor: "test", graceMs: 0 });
        }
      }
      await ended;
      await supervisor.close();
      const records = await fixture.recoverAndCheck(home);
      expect(records, name).toHaveLength(recorded ? SPAWNS : 0);
      for (const record of records) {
        expect(record.exit?.reason, name).toBe(runs ? "manual-cancel" : "spawn-error");
        expect(fixture.hasRun(home, record), name).toBe(runs);
      }
    },
  );
  await fixture.expectNoProcesses();
});
