import { expect, test } from "vitest";
import { soak } from "../support/scale.js";
import { runSchedule } from "./run-schedule.js";
import { firstSeed, variants } from "./variants.js";
import type { PlantedBugs, SimulationVariant } from "./world.js";

interface Planted {
  readonly what: string;
  readonly flaws: PlantedBugs;
  readonly seen: RegExp;
  /** A schedule that found it, which is tried first. After a change to the simulator any other may. */
  readonly foundIn?: number;
  /** Where it shows; everywhere unless said. */
  readonly where?: (variant: SimulationVariant) => boolean;
}

/** Schedules until it must have been found: the suite runs ten times as many and more. */
const WITHIN = 2_500;

const bugs: readonly Planted[] = [
  { what: "an anchor that skips the epoch check", flaws: { anyEpoch: true }, foundIn: 180, seen: /epoch/ },
  {
    what: "a store that hands out a lease without comparing the epoch",
    flaws: { claimIgnoresEpoch: true },
    foundIn: 180,
    seen: /lease|epoch|holds it/,
  },
  {
    what: "a store that hands out a lease that has not expired",
    flaws: { claimIgnoresExpiry: true },
    foundIn: 1_978,
    seen: /before it expired|holds its lock/,
  },
  {
    what: "a store that lets a run end twice",
    flaws: { endsTwice: true },
    foundIn: 11,
    seen: /had ended|told 2 times/,
  },
  {
    what: "GO before the commit",
    flaws: { earlyAnswer: true },
    seen: /before its process was on record|without a record/,
  },
  {
    what: "a reap that goes by the number",
    flaws: { reapByNumber: true },
    foundIn: 21,
    seen: /signalled/,
    where: ({ uniqueIds, cgroups }) => !uniqueIds && !cgroups,
  },
  {
    what: "a stop that takes an anchor for the recorded one by its program",
    flaws: { anchorByProgram: true },
    foundIn: 799,
    seen: /the anchor of another run/,
    where: ({ uniqueIds, cgroups }) => !uniqueIds && !cgroups,
  },
  {
    what: "a reap that says proven without having looked",
    flaws: { reapHopes: true },
    foundIn: 940,
    seen: /proven/,
  },
  { what: "a launcher whose word comes before its deed", flaws: { launcherHopes: true }, seen: /proven/ },
  {
    what: "a lock that looks free while it is held",
    flaws: { blindToLocks: true },
    foundIn: 31,
    seen: /holds its lock|while its owner lives/,
  },
  {
    what: "a process that does not see that another holds its instance's lock",
    flaws: { blindToOwnLock: true },
    seen: /processes of one instance/,
  },
  {
    what: "an anchor that takes the leader's end for the tree's",
    flaws: { anchorHopes: true },
    seen: /proven/,
  },
  {
    what: "a stop that waits for a stopped anchor",
    flaws: { reapSparesSilent: true },
    foundIn: 19,
    seen: /below a stopped anchor|its deadline passed|is still there|goes on under another/,
  },
  {
    what: "a launcher that kills an anchor for its silence",
    flaws: { launcherImpatient: true },
    foundIn: 56,
    seen: /although no end of it was due|unproven without need/,
  },
  {
    what: "a directory of an anchor without a run that is not marked",
    flaws: { warmLooksUsed: true },
    seen: /its anchor has no run/,
  },
  {
    what: "deadlines on the wall clock",
    flaws: { wallClock: true },
    foundIn: 142,
    seen: /timeout of|anchor is gone/,
  },
];

for (const { what, flaws, seen, foundIn = 1, where = () => true } of bugs)
  test(`${what} is found`, async () => {
    const among = variants.filter(where);
    const first = soak ? [] : [foundIn];
    for (const tried of [...first, ...Array.from({ length: WITHIN }, (_, at) => at + 1)]) {
      const variant = among[tried % among.length] ?? expect.fail("no variants");
      const failure = await runSchedule(firstSeed(variant) + tried, variant, { flaws });
      if (failure === null) continue;
      console.log(`${what}: found in schedule ${tried} (${failure.message})`);
      expect(failure.message).toMatch(seen);
      return;
    }
    expect.fail(`not found in ${WITHIN} schedules`);
  });
