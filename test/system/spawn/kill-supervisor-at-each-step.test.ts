import { describe, expect, test } from "vitest";
import { forEachConcurrently, nextSupervisor, SPAWN_STEPS, SpawnFixture } from "./spawn-fixture.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const VICTIMS = repetitions(2, 100);
/** Runs that are at the step when their supervisor is killed. */
const SPAWNS = 3;
const RANDOM = repetitions(12, 500);
/** Victims that start at the same time: each is a Node process with a store of its own. */
const AT_ONCE = 3;
const OWNER_LOSS_MS = 200;
/** Termination adds its grace of 100 ms to the owner loss. */
const POLICY_MS = OWNER_LOSS_MS + 100;

describe("a supervisor killed outright", () => {
  for (const { name, after, runs, reason } of SPAWN_STEPS) {
    test(`after ${after}: ${runs ? "the command ends by its policy" : "the command never runs"}`, async () => {
      const fixture = await SpawnFixture.open();
      const homes = await Promise.all(Array.from({ length: VICTIMS }, (_, at) => fixture.home(`v${at}`)));
      await forEachConcurrently(AT_ONCE, homes, (home) => fixture.kill(home, name, SPAWNS, OWNER_LOSS_MS));
      const goneMs = await fixture.runsGone(POLICY_MS);
      for (const home of homes) {
        const records = await fixture.recoverAndCheck(home);
        expect(records).toHaveLength(SPAWNS);
        for (const record of records) {
          expect(record.exit?.reason, record.exit?.detail ?? "").toBe(reason);
          expect(fixture.hasRun(home, record)).toBe(runs);
          expect(record.startedAt !== null).toBe(runs);
        }
      }
      await fixture.expectNoProcesses();
      const count = `${VICTIMS} supervisors of ${SPAWNS} runs each`;
      console.log(`${name}: ${count}, nothing left ${Math.round(goneMs)} ms after the last was killed`);
    });
  }

  test("at any time at all, during several spawns: each run has one, correct end", async () => {
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
        const key = ran
          ? "had been started"
          : record.root === null
            ? "had no process on record"
            : "were gated";
        counts[key] = (counts[key] ?? 0) + 1;
      }
      counts["were not recorded"] = (counts["were not recorded"] ?? 0) + spawns - records.length;
    }
    await fixture.expectNoProcesses();
    console.log(`at random: ${RANDOM} kills in ${spawns} spawns each; of the runs`, counts);
  });
});

describe("a supervisor that restarts within the owner-loss time", () => {
  for (const { name, after, runs } of SPAWN_STEPS) {
    test(`after ${after}: ${runs ? "continues the run" : "ends it, unexecuted"}`, async () => {
      const fixture = await SpawnFixture.open();
      for (let round = 0; round < repetitions(1, 30); round++) {
        const home = await fixture.home(`v${round}`);
        await fixture.kill(home, name, SPAWNS, 60_000);
        const supervisor = await nextSupervisor(home);
        const found = await supervisor.recover();
        const ended = Promise.all(found.map((run) => run.wait()));
        if (runs) {
          expect(found).toHaveLength(SPAWNS);
          await waitFor(() => found.every((run) => fixture.hasRun(home, run)));
          for (const run of found) {
            expect(run.state).toBe("running");
            await run.cancel({ actor: "test", graceMs: 0 });
          }
        }
        await ended;
        await supervisor.close();
        const records = await fixture.recoverAndCheck(home);
        expect(records).toHaveLength(SPAWNS);
        for (const record of records) {
          expect(record.exit?.reason).toBe(runs ? "manual-cancel" : "spawn-error");
          expect(fixture.hasRun(home, record)).toBe(runs);
        }
      }
      await fixture.expectNoProcesses();
    });
  }
});
