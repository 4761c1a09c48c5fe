import { describe, expect, test } from "vitest";
import { repetitions } from "../support/scale.js";
import { addOccurrence, OCCURRENCES, type OccurrenceCounts } from "./occurrences.js";
import { runSchedule } from "./run-schedule.js";
import { firstSeed, variantOf, variants } from "./variants.js";

/** Schedules per variant. */
const COUNT = repetitions(120, 30_000);

/** How often each rare situation has occurred in the schedules below. */
const occurred: OccurrenceCounts = new Map();

const replayed = process.env["HOLDFAST_SIM_SEED"];

describe.runIf(replayed === undefined)("under every schedule, every invariant holds", () => {
  for (const variant of variants)
    test(`${variant.name}: ${COUNT} schedules`, async () => {
      const first = firstSeed(variant);
      for (let seed = first; seed < first + COUNT; seed++) {
        const failure = await runSchedule(seed, variant, { ended: (world) => addAll(world.occurred) });
        if (failure !== null)
          expect.fail(
            `${failure.message}\nreplay: HOLDFAST_SIM_SEED=${seed} npm test -- test/simulation/simulation.test.ts`,
          );
      }
    });

  test("the schedules include every rare situation", () => {
    expect(OCCURRENCES.filter((what) => !occurred.has(what))).toEqual([]);
  });
});

function addAll(counts: OccurrenceCounts): void {
  for (const [what, times] of counts) addOccurrence(occurred, what, times);
}

describe.runIf(replayed !== undefined)("one schedule, printed step by step", () => {
  test(`seed ${replayed}`, async () => {
    const seed = Number(replayed);
    const failure = await runSchedule(seed, variantOf(seed), { tell: (line) => console.log(line) });
    expect(failure).toBeNull();
  });
});

test("the same seed is the same schedule", async () => {
  for (const variant of variants) {
    const told = [];
    for (const lines of [[], []] as string[][]) {
      await runSchedule(firstSeed(variant) + 7, variant, { tell: (line) => lines.push(line) });
      // Ids are drawn anew each time, and nothing depends on them.
      told.push(lines.map((line) => line.replaceAll(/run_[0-9a-z]{12}/g, "run")));
    }
    expect(told[0]?.length).toBeGreaterThan(1);
    expect(told[0]).toEqual(told[1]);
  }
});
