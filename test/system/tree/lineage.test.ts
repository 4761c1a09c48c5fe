import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { lineageTier, useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import { nobodyUser, rootUser } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { signalRecorded } from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";
import { checkNothingIsLeft } from "./check-end.js";
import { ends } from "./run-ends.js";
import { graceMs, TreeFixture } from "./tree-fixture.js";

useDarwinAnchor();

/** Each end with a pipe as root and with a terminal as an ordinary user. */
const matrix = ends.flatMap((end) => [
  { end, io: "pipe" as const, user: rootUser, tier: lineageTier },
  { end, io: "pty" as const, user: nobodyUser, tier: lineageTier },
]);

describe.concurrent("nothing is left with the files for macOS", () => {
  test.for(matrix.map((each) => [each.end.name, each.io, each.user.name, each] as const))(
    "after %s: %s, %s",
    async ([, , , each], { skip }) => {
      const whyNot = whyNoDarwinShim ?? each.user.whyNot;
      if (whyNot !== null) skip(whyNot);
      await checkNothingIsLeft(each);
    },
  );
});

describe.skipIf(whyNoDarwinShim !== null)(
  "an orphan whose parents ended while the anchor did not look",
  () => {
    /** Forks a process whose two ancestors end at once, without environment, while the anchor is stopped. */
    async function leaveOrphan(fixture: TreeFixture, prepare: string): Promise<LiveProcess> {
      const { token } = fixture.processes;
      // Not its standard input, which the anchor writes.
      const fifo = join(fixture.sandbox.directory, "fifo");
      execFileSync("mkfifo", [fifo]);
      const orphan = `${prepare}; sleep 100001.${token} &`;
      const argv = [
        "bash",
        "-c",
        `read go <${fifo}; env -i setsid bash -c '(${orphan}) & exit 0'; exec sleep 100000.${token}`,
      ];
      const { record } = await fixture.library.spawn({ io: "pipe", argv }, { graceMs });
      signalRecorded(record.anchor, "SIGSTOP");
      await writeFile(fifo, "go\n");
      const isOrphan = ({ argv: [, time] }: LiveProcess): boolean => time === `100001.${token}`;
      await waitFor("the orphan and the leader run", () => fixture.sleepers().length === 2);
      const found = fixture.sleepers().find(isOrphan);
      if (found === undefined) throw new Error("there is no orphan");
      signalRecorded(record.anchor, "SIGCONT");
      return found;
    }

    test("is found by the descriptor that it inherited", async () => {
      await using fixture = await TreeFixture.open(rootUser, lineageTier);
      await leaveOrphan(fixture, "true");
      fixture.library.cancel({ actor: "test" });
      await fixture.ends();
    });

    test("control: outlives the run if it has closed that descriptor, too", async () => {
      await using fixture = await TreeFixture.open(rootUser, lineageTier);
      const orphan = await leaveOrphan(
        fixture,
        'for fd in /proc/self/fd/*; do [ ${fd##*/} -lt 10 ] || eval "exec ${fd##*/}>&-"; done',
      );
      fixture.library.cancel({ actor: "test" });
      const { record } = await fixture.library.receive("ended");
      expect(record.emptiness).toBe("proven");
      expect(fixture.processes.ofRuns().map(({ pid }) => pid)).toEqual([orphan.pid]);
      signalProcess(orphan, "SIGKILL");
      await fixture.processes.waitUntilGone(5_000);
      await fixture.library.close();
    });
  },
);

test.skipIf(whyNoDarwinShim !== null)(
  "the next supervisor finds the tree of a run whose anchor, launcher and supervisor were killed at once",
  async () => {
    await using fixture = await TreeFixture.open(rootUser, lineageTier);
    const { record } = await fixture.playScenario();
    for (const one of fixture.sandbox.holdfastProcesses()) signalProcess(one, "SIGSTOP");
    for (const one of fixture.sandbox.holdfastProcesses()) signalProcess(one, "SIGKILL");
    await fixture.library.kill();
    expect(fixture.sleepers().length).toBeGreaterThanOrEqual(4);
    await using successor = await LibraryProcess.open(fixture.sandbox);
    successor.order("recover");
    await successor.receive("recovered");
    expect(fixture.processes.ofRuns()).toEqual([]);
    const { runs } = await successor.list();
    expect(runs).toMatchObject([{ runId: record.runId, state: "exited", emptiness: "proven" }]);
    await successor.close();
  },
);
