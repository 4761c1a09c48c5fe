import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TokenProcesses } from "../../support/supervisor/token-processes.js";
import { signalProcess } from "../../support/live-processes.js";
import { buildNativePrograms, whyNoCompiler } from "../../support/native-programs.js";
import { ordinaryUser, Sandbox, tiers } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { waitFor } from "../../support/wait-for.js";

const programs = buildNativePrograms("storm");

/** The limit counts processes by user, so no other process may run as this user: the storm would affect it. */
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
        await using sandbox = Sandbox.create(stormer, tier, ["prlimit", `--nproc=${mostProcesses}`]);
        await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
        await using libraryProcess = await LibraryProcess.open(sandbox);
        const { record } = await libraryProcess.spawn(
          { io: "pipe", argv: [join(programs, "storm"), tokenProcesses.token] },
          {},
        );
        await libraryProcess.waitForOutput("storming");
        await waitFor(`${enough} processes`, () => tokenProcesses.ofRuns().length >= enough);

        if (end === "cancel") libraryProcess.cancel({ graceMs: 0, actor: "test:me" });
        else if (record.anchor !== null) signalProcess(record.anchor, "SIGKILL");
        const ended = (await libraryProcess.receive("ended", endedWithinMs)).record;
        expect(tokenProcesses.ofRuns(), "survivors").toEqual([]);
        expect(ended).toMatchObject({
          emptiness: "proven",
          exit: end === "cancel" ? { reason: "manual-cancel", actor: "test:me" } : { reason: "lost" },
        });
        expect(ended.tier).toMatch(tier.recorded);
        await libraryProcess.close();
        expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
        expect(tokenProcesses.ofRuns(), "survivors").toEqual([]);
      });
});
