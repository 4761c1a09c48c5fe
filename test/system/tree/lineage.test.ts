import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { lineageTier, useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import { plantBystander } from "../../support/bystander.js";
import {
  findByCommandLine,
  isAlive,
  isSameProcess,
  type LiveProcess,
  readProcess,
  signalProcess,
} from "../../support/live-processes.js";
import { buildNativePrograms } from "../../support/native-programs.js";
import { nobodyUser, rootUser } from "../../support/sandbox.js";
import { repetitions } from "../../support/scale.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { signalRecorded } from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";
import { checkNothingIsLeft } from "./check-end.js";
import { ends } from "./run-ends.js";
import { graceMs, TreeFixture } from "./tree-fixture.js";

useDarwinAnchor();

const users = [
  { user: rootUser, io: "pipe" },
  { user: nobodyUser, io: "pty" },
] as const;

const programs = buildNativePrograms("chain", "reuse-pid");

// One user after the other: a lineage of another user cannot be read, so daemons of it could leave these runs unproven.
for (const { user, io } of users) {
  const whyNot = whyNoDarwinShim ?? user.whyNot;
  describe(`nothing is left with the files for macOS, ${io}, ${user.name}`, () => {
    describe.concurrent("at once", () => {
      test.for(ends.map((end) => [end.name, end] as const))("after %s", async ([, end], { skip }) => {
        if (whyNot !== null) skip(whyNot);
        await checkNothingIsLeft({ end, io, user, tier: lineageTier });
      });
    });
  });
}

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

    test("outlives the run if it has closed that descriptor, too, and the run is unproven", async () => {
      await using fixture = await TreeFixture.open(rootUser, lineageTier);
      const orphan = await leaveOrphan(
        fixture,
        'for fd in /proc/self/fd/*; do [ ${fd##*/} -lt 10 ] || eval "exec ${fd##*/}>&-"; done',
      );
      fixture.library.cancel({ actor: "test" });
      const { record } = await fixture.library.receive("ended");
      expect(record).toMatchObject({
        state: "exited",
        emptiness: "unproven",
        exit: { reason: "manual-cancel" },
      });
      expect(record.exit?.detail).toContain(`process ${orphan.pid} (sleep)`);
      expect(fixture.processes.ofRuns().map(({ pid }) => pid)).toEqual([orphan.pid]);
      signalProcess(orphan, "SIGKILL");
      await fixture.processes.waitUntilGone(5_000);
      await fixture.library.close();
    });
  },
);

describe.skipIf(whyNoDarwinShim !== null)("a chain of processes that fork and exit", () => {
  /** Microseconds that each lives. In less than a list of processes takes, one is hardly ever found. */
  const lives = [0, 300, 3_000];
  /** It has the marks of the run, or none. */
  const chains = lives.flatMap((life) =>
    (["keep", "forget"] as const).map((marks) => [life, marks] as const),
  );

  test.each(chains)("of %i µs each, %s: is gone when its run is proven empty", async (life, marks) => {
    // Reaps what the chain leaves, which would use up the pids.
    const reaper = [findAnchorBinary({}), "init", "--"];
    await using fixture = await TreeFixture.open(rootUser, lineageTier, reaper);
    for (let round = 0; round < repetitions(3, 30); round++) {
      const beat = join(fixture.sandbox.directory, `beat-${round}`);
      await writeFile(beat, "");
      const argv = [join(programs, "chain"), fixture.processes.token, beat, "4", String(life), marks];
      await fixture.library.spawn({ io: "pipe", argv }, { graceMs, onEscape: "sweep" });
      const { record } = await fixture.library.receive("ended");
      const before = await readFile(beat, "hex");
      await setTimeout(50);
      if ((await readFile(beat, "hex")) !== before) {
        expect(record).toMatchObject({ state: "exited", emptiness: "unproven", exit: { reason: "exit" } });
        expect(record.exit?.detail).toMatch(/^emptiness unproven: /);
      }
      await rm(beat);
      await fixture.processes.waitUntilGone(5_000);
    }
    await fixture.library.close();
  });

  test("of strangers leaves the ends of ordinary runs proven", async () => {
    const reaper = [findAnchorBinary({}), "init", "--"];
    await using fixture = await TreeFixture.open(rootUser, lineageTier, reaper);
    const strangers = fixture.sandbox.spawn(
      ["sh", "-c", "while :; do (true & true); sleep 0.002; done"],
      "ignore",
    );
    const found: string[] = [];
    try {
      for (let round = 0; round < repetitions(15, 100); round++) {
        await fixture.library.spawn({ io: "pipe", argv: ["sh", "-c", "ls; ls"] }, { graceMs });
        found.push(String((await fixture.library.receive("ended")).record.emptiness));
      }
    } finally {
      strangers.kill("SIGTERM");
      await once(strangers, "exit");
    }
    // On an overloaded machine what a stranger leaves may not be examined in time.
    const proven = found.filter((emptiness) => emptiness === "proven");
    expect(proven.length).toBeGreaterThanOrEqual(found.length * 0.9);
    await fixture.library.close();
  });
});

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

const STOP = encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "one", graceMs: 50 });

test.skipIf(whyNoDarwinShim !== null)(
  "a service that was adopted out of a run survives when that run is ended without its anchor",
  async () => {
    plantBystander("sleep", ["3061"]);
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "sleep 3061 & echo $!; sleep 3062 & echo $!; wait");
    const lines = async () => (await launcher.output("run_a", "stdout")).split("\n").slice(0, -1);
    await waitFor("both run", async () => (await lines()).length === 2);
    const [chosen = 0, own = 0] = (await lines()).map(Number);
    owner.send(await launcher.adoptFrame("run_b", chosen));
    await owner.receive("adopted");
    const service = await launcher.attach("run_b", 1);

    // The leader of the run is alive, and is the parent of the service.
    const { cgroup, cgroupInode } = (await launcher.readRunFile("run_a", "anchor.json")) as Record<
      string,
      string
    >;
    const words = ["reap", "--cgroup", cgroup ?? "", "--cgroup-inode", cgroupInode ?? "", "--grace", "0"];
    const answer: unknown = JSON.parse(execFileSync(findAnchorBinary(), words, { encoding: "utf8" }));
    expect(answer).toMatchObject({ verified: true, survivors: [] });
    await waitFor("the run's own process is gone", () => !existsSync(`/proc/${own}/exe`));
    expect(existsSync(`/proc/${chosen}/exe`)).toBe(true);

    service.send(STOP);
    expect(JSON.parse((await service.receive("exited")).json)).toMatchObject({ reason: "shutdown" });
    expect(existsSync(`/proc/${chosen}/exe`)).toBe(false);
  },
);

test.skipIf(whyNoDarwinShim !== null)(
  "a process with the pid of a member that ended while the anchor did not look is ended with its run",
  async () => {
    plantBystander("sleep", ["3063"]);
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", `exec ${join(programs, "reuse-pid")} 3064`, { onEscape: 1 });
    const [pid = 0] = await waitFor("the first sleeper runs", async () => {
      const output = await launcher.output("run_a", "stdout");
      return output.endsWith("\n") && output.split("\n").map(Number);
    });
    const file = (await launcher.readRunFile("run_a", "anchor.json")) as Record<
      "anchor" | "root",
      { pid: number }
    >;
    const [anchor, leader, first] = [file.anchor.pid, file.root.pid, pid].map(readProcess);
    if (!anchor || !leader || !first) throw new Error("the run does not run");
    // When it has listed them, it watches the first sleeper.
    owner.send(encodeMessage("members", { requestId: "one" }));
    await owner.receive("membersAre");
    const sleepers = (): LiveProcess[] => findByCommandLine("sleep\u00003064\u0000");

    signalProcess(anchor, "SIGSTOP");
    signalProcess(leader, "SIGUSR1");
    await waitFor("there are two", () => sleepers().length === 2);
    // When it answers, the anchor has been told of this fork, and will hear of it before the end of the first.
    execFileSync(findAnchorBinary(), ["inspect"], { input: "1\n" });
    signalProcess(leader, "SIGUSR1");
    const second = await waitFor("the first is replaced", () =>
      sleepers().find((each) => each.pid === pid && !isSameProcess(each, first)),
    );
    signalProcess(anchor, "SIGCONT");
    signalProcess(leader, "SIGUSR1");

    const exit: unknown = JSON.parse((await owner.receive("exited")).json);
    expect(isAlive(second)).toBe(false);
    expect(exit).toMatchObject({ reason: "exit", leader: { code: 3 }, emptiness: "proven" });
    expect(sleepers()).toEqual([]);
  },
);
