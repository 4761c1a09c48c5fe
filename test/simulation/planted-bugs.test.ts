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
  { what: "an anchor that skips the epoch check", flaws: { anyEpoch: true }, foundIn: 36, seen: /epoch/ },
  {
    what: "a store that hands out a lease without comparing the epoch",
    flaws: { claimIgnoresEpoch: true },
    foundIn: 36,
    seen: /lease|epoch|holds it/,
  },
  {
    what: "a store that hands out a lease that has not expired",
    flaws: { claimIgnoresExpiry: true },
    foundIn: 372,
    seen: /before it expired|holds its lock/,
  },
  {
    what: "a store that lets a run end twice",
    flaws: { endsTwice: true },
    foundIn: 74,
    seen: /had ended|told 2 times/,
  },
  {
    what: "GO before the commit",
    flaws: { earlyAnswer: true },
    foundIn: 1,
    seen: /before its process was on record|without a record/,
  },
  {
    what: "a reap that goes by the number",
    flaws: { reapByNumber: true },
    foundIn: 83,
    seen: /signalled/,
    where: ({ uniqueIds, cgroups }) => !uniqueIds && !cgroups,
  },
  {
    what: "a stop that takes an anchor for the recorded one by its program",
    flaws: { anchorByProgram: true },
    foundIn: 1_718,
    seen: /the anchor of another run/,
    where: ({ uniqueIds, cgroups }) => !uniqueIds && !cgroups,
  },
  {
    what: "a reap that says proven without having looked",
    flaws: { reapHopes: true },
    foundIn: 573,
    seen: /proven/,
  },
  {
    what: "a launcher whose word comes before its deed",
    flaws: { launcherHopes: true },
    foundIn: 129,
    seen: /proven/,
  },
  {
    what: "a lock that looks free while it is held",
    flaws: { blindToLocks: true },
    foundIn: 7,
    seen: /holds its lock|while its owner lives/,
  },
  {
    what: "a process that does not see that another holds its instance's lock",
    flaws: { blindToOwnLock: true },
    foundIn: 12,
    seen: /processes of one instance/,
  },
  {
    what: "an anchor that takes the leader's end for the tree's",
    flaws: { anchorHopes: true },
    foundIn: 10,
    seen: /proven/,
  },
  {
    what: "a stop that waits for a stopped anchor",
    flaws: { reapSparesSilent: true },
    foundIn: 58,
    seen: /below a stopped anchor|its deadline passed|is still there|goes on under another/,
  },
  {
    what: "a launcher that kills an anchor for its silence",
    flaws: { launcherImpatient: true },
    foundIn: 4,
    seen: /although no end of it was due|unproven without need/,
  },
  {
    what: "a directory of an anchor without a run that is not marked",
    flaws: { warmLooksUsed: true },
    foundIn: 1,
    seen: /its anchor has no run/,
  },
  {
    what: "a warm anchor that outlives its supervisor",
    flaws: { warmOutlivesOwner: true },
    foundIn: 1,
    seen: /lives although its supervisor is gone/,
  },
  {
    what: "a START that does not name the directory of its run",
    flaws: { startKeepsMark: true },
    foundIn: 126,
    seen: /never had a run|proven|without need|is not connected to its anchor/,
  },
  {
    what: "a warm anchor that dies without showing that nothing was executed",
    flaws: { warmShowsNothing: true },
    foundIn: 15,
    seen: /was not executed|without need/,
  },
  {
    what: "a commit before GO without the identity of the process",
    flaws: { insertWithoutIdentity: true },
    foundIn: 1,
    seen: /before its process was on record/,
  },
  {
    what: "deadlines on the wall clock",
    flaws: { wallClock: true },
    foundIn: 2,
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
