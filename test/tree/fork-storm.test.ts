import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Crowd } from "./crowd.js";
import { signal, until } from "./living.js";
import { builtPrograms, whyNoCompiler } from "./native.js";
import { ordinaryUser, Seat, tiers } from "./seat.js";
import { Supervised } from "./supervised.js";

const programs = builtPrograms("storm");

/** The limit counts processes by user: nobody else may be this one, or the storm would be theirs too. */
const stormer = ordinaryUser(64_391);
/** Enough for Node's threads and a storm; little enough for any machine. */
const mostProcesses = 300;
const enough = 200;
/** It takes milliseconds; only a storm that is fought with pauses can outgrow this. */
const endedWithinMs = 5_000;

describe("a fork storm", () => {
  for (const tier of [tiers.cgroup, tiers.none, tiers.noPidfd])
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test(`is over after ${end}, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = stormer.whyNot ?? whyNoCompiler ?? tier.whyNot;
        if (whyNot !== null) skip(whyNot);
        if (stormer.uid === null) skip("a limit on processes must not be the suite's own: not root");
        await using seat = Seat.take(stormer, tier, ["prlimit", `--nproc=${mostProcesses}`]);
        await using crowd = await Crowd.ofSleeper(seat);
        await using supervised = await Supervised.open(seat);
        const { record } = await supervised.spawn(
          { io: "pipe", argv: [join(programs, "storm"), crowd.token] },
          {},
        );
        await supervised.saw("storming");
        await until(`${enough} processes`, () => crowd.others().length >= enough);

        if (end === "cancel") supervised.cancel({ graceMs: 0, actor: "test:me" });
        else if (record.anchor !== null) signal(record.anchor, "SIGKILL");
        const ended = (await supervised.hear("ended", endedWithinMs)).record;
        expect(crowd.others(), "survivors").toEqual([]);
        expect(ended).toMatchObject({
          emptiness: "proven",
          exit: end === "cancel" ? { reason: "manual-cancel", actor: "test:me" } : { reason: "lost" },
        });
        expect(ended.tier).toMatch(tier.recorded);
        await supervised.close();
        expect(crowd.missing(), "the bystander").toEqual([]);
        expect(crowd.others(), "survivors").toEqual([]);
      });
});
