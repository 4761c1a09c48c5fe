import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import { TokenProcesses, scenarioScript } from "../../support/supervisor/token-processes.js";
import { isAlive, signalProcess, type LiveProcess } from "../../support/live-processes.js";
import { buildNativePrograms, whyNoCompiler } from "../../support/native-programs.js";
import { currentUser, nobodyUser, rootUser, Sandbox, tiers } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { waitFor } from "../../support/wait-for.js";

const programs = buildNativePrograms("hop", "headless");
const graceMs = 250;

interface Stage {
  readonly seat: Sandbox;
  readonly crowd: TokenProcesses;
  readonly supervised: LibraryProcess;
}

describe.concurrent("a tree that resists", () => {
  // Not without handles: there only direct children are signalled, and whoever is deeper down is killed as he comes up.
  for (const tier of [tiers.cgroup, tiers.none])
    test(`every process gets TERM before KILL, stopped ones too, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(
        Sandbox.create(currentUser, tier),
        async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
          await libraryProcess.spawn({ io: "pipe", argv: [child("goodbye.sh"), tokenProcesses.token] }, {});
          const roles = ["leader", "child", "session", "stopped", "daemon"];
          for (const role of roles) await libraryProcess.waitForOutput(`here ${role}`);
          await waitFor("the stopped one is stopped", () =>
            tokenProcesses.ofRuns().some(({ state }) => state === "T"),
          );
          // Far more than they need: nobody of them is to be killed.
          libraryProcess.cancel({ graceMs: 10_000 });
          const record = await ends(libraryProcess, tokenProcesses);
          expect(record).toMatchObject({ exit: { reason: "manual-cancel", code: 0 }, residueCount: 0 });
          expect(byes(libraryProcess.output)).toEqual(new Set(roles));
        },
      );
    });

  for (const tier of [tiers.cgroup, tiers.none, tiers.noPidfd])
    test(`one that answers TERM with new daemons, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(
        Sandbox.create(currentUser, tier),
        async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
          await libraryProcess.spawn(
            { io: "pipe", argv: [child("hydra.sh"), tokenProcesses.token] },
            { graceMs },
          );
          await libraryProcess.waitForOutput("another");
          libraryProcess.cancel({});
          const record = await ends(libraryProcess, tokenProcesses);
          expect(record).toMatchObject({ exit: { reason: "manual-cancel", signal: "SIGKILL" } });
        },
      );
    });

  for (const tier of [tiers.cgroup, tiers.none])
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test(`a PID namespace within, after ${end}, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = rootUser.whyNot ?? tier.whyNot;
        if (whyNot !== null) skip(whyNot);
        if (spawnSync("unshare", ["--pid", "--fork", "true"]).status !== 0) skip("no PID namespaces here");
        await onStage(
          Sandbox.create(rootUser, tier),
          async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
            // The first process of a namespace does not even notice a TERM it has no handler for.
            const script = `sleep 100001.${tokenProcesses.token} & setsid sleep 100002.${tokenProcesses.token} & wait`;
            const argv = ["unshare", "--pid", "--fork", "sh", "-c", script];
            const { record } = await libraryProcess.spawn({ io: "pipe", argv }, { graceMs });
            await waitFor("both sleep", () => sleepers(tokenProcesses).length === 2);
            if (end === "cancel") libraryProcess.cancel({});
            else signalProcess(known(record.anchor), "SIGKILL");
            await ends(libraryProcess, tokenProcesses);
          },
        );
      });

  for (const tier of [tiers.cgroup, tiers.none])
    for (const place of ["the leader", "a child"] as const)
      test(`${place} whose first thread has ended, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = tier.whyNot ?? whyNoCompiler;
        if (whyNot !== null) skip(whyNot);
        await onStage(
          Sandbox.create(currentUser, tier),
          async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
            const headless = [join(programs, "headless"), tokenProcesses.token];
            const argv =
              place === "the leader" ? headless : ["sh", "-c", '"$@" & read -r _', "sh", ...headless];
            await libraryProcess.spawn({ io: "pipe", argv }, { graceMs });
            await libraryProcess.waitForOutput(/headless \d+/);
            const pid = Number(/headless (\d+)/.exec(libraryProcess.output)?.[1]);
            await waitFor("it looks dead", () => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8")));
            expect(threads(pid)).toBe(2);
            libraryProcess.cancel({});
            await ends(libraryProcess, tokenProcesses);
            expect(threads(pid)).toBe(0);
          },
        );
      });

  for (const tier of [tiers.cgroup, tiers.none])
    test(`a run within a run, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(
        Sandbox.create(currentUser, tier),
        async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
          const inner = [process.execPath, resolve("dist/cli/main.js"), "run", "--in-process"];
          const argv = [...inner, "--", "sh", scenarioScript, tokenProcesses.token];
          await libraryProcess.spawn({ io: "pipe", argv }, { graceMs });
          await waitFor("all of it is there", () => sleepers(tokenProcesses).length === 4);
          expect(launchers(sandbox)).toHaveLength(2);
          libraryProcess.cancel({});
          // The inner launcher and anchor are processes of the run like any other.
          await ends(libraryProcess, tokenProcesses, () => expect(launchers(sandbox)).toHaveLength(1));
        },
      );
    });

  test("more processes than file descriptors", async () => {
    const sandbox = Sandbox.create(currentUser, tiers.none, ["prlimit", "--nofile=256"]);
    await onStage(sandbox, async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
      const script = `trap '' TERM; for i in $(seq 500); do sleep 100001.${tokenProcesses.token} & done; read -r _`;
      await libraryProcess.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { graceMs });
      await waitFor("all of them sleep", () => sleepers(tokenProcesses).length === 500);
      libraryProcess.cancel({});
      const record = await ends(libraryProcess, tokenProcesses);
      expect(record.usage?.processes).toBeGreaterThanOrEqual(501);
    });
  });

  for (const end of ["exit", "cancel", "SIGKILL of the anchor"] as const)
    test(`one that has left for another cgroup, after ${end}`, async ({ skip }) => {
      const whyNot = rootUser.whyNot ?? tiers.cgroup.whyNot;
      if (whyNot !== null) skip(whyNot);
      await onStage(
        Sandbox.create(rootUser, tiers.cgroup),
        async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
          const argv = [child("migrant.sh"), tokenProcesses.token, sandbox.cgroup ?? ""];
          const { record } = await libraryProcess.spawn({ io: "pipe", argv }, { graceMs });
          const migrant = await waitFor("it has moved", () => sleepers(tokenProcesses)[0]);
          expect(cgroupOf(migrant)).not.toContain(record.runId);
          if (end === "cancel") libraryProcess.cancel({});
          else if (end === "exit") libraryProcess.write("5\n");
          else signalProcess(known(record.anchor), "SIGKILL");
          const ended = await ends(libraryProcess, tokenProcesses);
          if (end !== "exit") return;
          expect(ended.exit).toMatchObject({ reason: "ownership-escape", code: 5 });
          expect(ended.residue).toEqual([expect.objectContaining({ pid: migrant.pid, kind: "migrated" })]);
        },
      );
    });
});

/** Whoever is found has already ended, and whoever follows has not been found: only who buries the dead can tell. */
describe("processes that replace themselves by forking", () => {
  const rounds = 5;
  for (const [tier, hoppers] of [
    [tiers.cgroup, 3],
    [tiers.none, 3],
    [tiers.noPidfd, 3],
    [tiers.noChildren, 1],
  ] as const)
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test(`are caught after ${end}, ${rounds} times, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = tier.whyNot ?? whyNoCompiler;
        if (whyNot !== null) skip(whyNot);
        await onStage(
          Sandbox.create(currentUser, tier),
          async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
            for (let round = 0; round < rounds; round++) {
              const argv = [join(programs, "hop"), tokenProcesses.token, String(hoppers)];
              const { record } = await libraryProcess.spawn({ io: "pipe", argv }, {});
              await waitFor("it hops", () => libraryProcess.output.match(/hopping/g)?.length === round + 1);
              if (end === "cancel") libraryProcess.cancel({ graceMs: 0 });
              else signalProcess(known(record.anchor), "SIGKILL");
              const ended = (await libraryProcess.receive("ended")).record;
              expect(ended).toMatchObject({ state: "exited", emptiness: "proven" });
              // One look may fall between two of them.
              const seen = Array.from({ length: 30 }, () => tokenProcesses.ofRuns()).flat();
              expect(seen, `survivors of round ${round}`).toEqual([]);
            }
          },
        );
      });
});

describe.concurrent("a supervision that fails", () => {
  for (const tier of [tiers.cgroup, tiers.none])
    test(`SIGKILL of the anchor in the grace after a cancel, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(
        Sandbox.create(currentUser, tier),
        async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
          const { record } = await playScenario(libraryProcess, tokenProcesses);
          libraryProcess.cancel({ graceMs: 60_000, actor: "test:me" });
          await waitFor("only the deaf one is left", () => tokenProcesses.ofRuns().length === 1);
          // Its status is noted before it is buried.
          await waitFor("the leader is buried", () => !existsSync(`/proc/${record.root?.pid}`));
          signalProcess(known(record.anchor), "SIGKILL");
          const ended = await ends(libraryProcess, tokenProcesses);
          expect(ended.exit).toMatchObject({ reason: "lost", actor: "test:me", signal: "SIGTERM" });
        },
      );
    });

  test("SIGKILL of the launcher: the anchor continues, and the record says so", async () => {
    await onStage(
      Sandbox.create(currentUser, tiers.none),
      async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
        await playScenario(libraryProcess, tokenProcesses);
        for (const launcher of launchers(sandbox)) signalProcess(launcher, "SIGKILL");
        await waitFor("the launcher is gone", () => launchers(sandbox).length === 0);
        libraryProcess.cancel({});
        const ended = await ends(libraryProcess, tokenProcesses);
        expect(ended.exit).toMatchObject({ reason: "manual-cancel" });
        expect(ended.tier).not.toContain("launcher");
        expect(ended.boundary?.note).toContain("launcher");
      },
    );
  });

  test("SIGKILL of launcher and anchor: with a cgroup, the tree is found and killed", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await onStage(
      Sandbox.create(currentUser, tiers.cgroup),
      async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
        const { record } = await playScenario(libraryProcess, tokenProcesses);
        for (const launcher of launchers(sandbox)) signalProcess(launcher, "SIGKILL");
        signalProcess(known(record.anchor), "SIGKILL");
        const ended = (await libraryProcess.receive("ended")).record;
        expect(tokenProcesses.ofRuns(), "survivors").toEqual([]);
        expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
        // Life goes on, and the next launcher clears away what the dead one left of its cgroup.
        await libraryProcess.spawn({ io: "pipe", argv: ["true"] }, {});
        expect((await ends(libraryProcess, tokenProcesses)).exit).toMatchObject({ reason: "exit", code: 0 });
      },
    );
  });

  test("SIGKILL of launcher and anchor: without a cgroup, the end is unproven", async () => {
    await onStage(
      Sandbox.create(currentUser, tiers.none),
      async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
        const { record } = await playScenario(libraryProcess, tokenProcesses);
        for (const launcher of launchers(sandbox)) signalProcess(launcher, "SIGKILL");
        signalProcess(known(record.anchor), "SIGKILL");
        const ended = (await libraryProcess.receive("ended")).record;
        expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
        // Everybody below the recorded root was verified and has been ended; only the daemon's parents were gone before.
        const names = tokenProcesses.ofRuns().map(({ argv }) => argv.join(" "));
        expect(names.filter((name) => name !== `sleep 100004.${tokenProcesses.token}`)).toEqual([]);
        await libraryProcess.close();
      },
    );
  });

  test("SIGKILL of launcher and anchor: a process that left the cgroup makes the end unproven", async ({
    skip,
  }) => {
    const whyNot = rootUser.whyNot ?? tiers.cgroup.whyNot;
    if (whyNot !== null) skip(whyNot);
    await onStage(
      Sandbox.create(rootUser, tiers.cgroup),
      async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
        const argv = [child("migrant.sh"), tokenProcesses.token, sandbox.cgroup ?? ""];
        const { record } = await libraryProcess.spawn({ io: "pipe", argv }, { graceMs });
        const migrant = await waitFor("it has moved", () => sleepers(tokenProcesses)[0]);
        for (const launcher of launchers(sandbox)) signalProcess(launcher, "SIGKILL");
        signalProcess(known(record.anchor), "SIGKILL");
        const ended = (await libraryProcess.receive("ended")).record;
        expect({ alive: isAlive(migrant), emptiness: ended.emptiness }).not.toEqual({
          alive: true,
          emptiness: "proven",
        });
        await libraryProcess.spawn({ io: "pipe", argv: ["true"] }, {});
        await libraryProcess.receive("ended");
        await libraryProcess.close();
      },
    );
  });

  test("a run of a stopped supervisor ends", async () => {
    await onStage(
      Sandbox.create(currentUser, tiers.none),
      async ({ crowd: tokenProcesses, supervised: libraryProcess }) => {
        const timeoutMs = 1_500;
        await playScenario(libraryProcess, tokenProcesses, { timeoutMs });
        libraryProcess.signal("SIGSTOP");
        await tokenProcesses.waitUntilGone(timeoutMs + defaults.backstopMs + graceMs + 5_000);
        libraryProcess.signal("SIGCONT");
        const ended = await ends(libraryProcess, tokenProcesses);
        expect(ended.exit).toMatchObject({ reason: "overall-timeout", actor: "anchor", signal: "SIGTERM" });
      },
    );
  });

  for (const [reason, options] of [
    ["overall-timeout", { timeoutMs: 1_500 }],
    ["no-output-timeout", { noOutputTimeoutMs: 1_500 }],
  ] as const)
    test(`without a supervisor the anchor keeps the ${reason}`, async () => {
      const user = nobodyUser.whyNot === null ? nobodyUser : currentUser;
      await onStage(
        Sandbox.create(user, tiers.none),
        async ({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess }) => {
          await playScenario(libraryProcess, tokenProcesses, { ...options, ownerLossMs: 60_000 });
          await libraryProcess.kill();
          await tokenProcesses.waitUntilGone(10_000);
          await using successor = await LibraryProcess.open(sandbox);
          successor.order("recover");
          await successor.receive("recovered");
          const { runs } = await successor.list();
          expect(runs).toHaveLength(1);
          expect(runs[0]).toMatchObject({ emptiness: "proven", exit: { reason, actor: "anchor" } });
          await successor.close();
        },
      );
    });
});

/** Plays on a seat with a bystander, who must be there to the last. */
async function onStage(taken: Sandbox, play: (stage: Stage) => Promise<void>): Promise<void> {
  await using sandbox = taken;
  await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
  await using libraryProcess = await LibraryProcess.open(sandbox);
  await play({ seat: sandbox, crowd: tokenProcesses, supervised: libraryProcess });
  expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
}

async function playScenario(
  libraryProcess: LibraryProcess,
  tokenProcesses: TokenProcesses,
  options: object = {},
): Promise<{ record: RunRecord }> {
  const started = await libraryProcess.spawn(
    { io: "pipe", argv: ["sh", scenarioScript, tokenProcesses.token] },
    { graceMs, ...options },
  );
  await tokenProcesses.waitForAllRoles();
  return started;
}

function byes(output: string): Set<string> {
  return new Set(Array.from(output.matchAll(/bye (\w+)/g), ([, role]) => role ?? ""));
}

/** Proven empty, which is true at once; and the library closes without a word. */
async function ends(
  libraryProcess: LibraryProcess,
  tokenProcesses: TokenProcesses,
  checkAtOnce: () => void = () => {},
): Promise<RunRecord> {
  const { record } = await libraryProcess.receive("ended");
  expect(tokenProcesses.ofRuns(), "survivors").toEqual([]);
  checkAtOnce();
  expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
  const { events } = await libraryProcess.list();
  expect(events.filter(({ type, runId }) => type === "exit" && runId === record.runId)).toHaveLength(1);
  await libraryProcess.receive("silent");
  await libraryProcess.close();
  return record;
}

function child(name: string): string {
  return fileURLToPath(new URL(`children/${name}`, import.meta.url));
}

function sleepers(tokenProcesses: TokenProcesses): LiveProcess[] {
  return tokenProcesses.ofRuns().filter(({ argv: [command] }) => command === "sleep");
}

function launchers(sandbox: Sandbox): LiveProcess[] {
  return sandbox.holdfastProcesses().filter(({ argv: [, mode] }) => mode === "launch");
}

function cgroupOf({ pid }: LiveProcess): string {
  return readFileSync(`/proc/${pid}/cgroup`, "utf8");
}

function threads(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`).length;
  } catch {
    return 0;
  }
}

function known(identity: ProcessIdentity | null): ProcessIdentity {
  if (identity === null) throw new Error("its identity is not on record");
  return identity;
}
