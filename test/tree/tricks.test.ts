import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { ProcessIdentity, RunRecord } from "../../src/store/run-record.js";
import { Crowd, scenario } from "./crowd.js";
import { isAlive, signal, until, type Living } from "./living.js";
import { builtPrograms, whyNoCompiler } from "./native.js";
import { anybody, nobody, root, Seat, tiers } from "./seat.js";
import { Supervised } from "./supervised.js";

const programs = builtPrograms("hop", "headless");
const graceMs = 250;

interface Stage {
  readonly seat: Seat;
  readonly crowd: Crowd;
  readonly supervised: Supervised;
}

describe.concurrent("a tree that resists", () => {
  // Not without handles: there only direct children are signalled, and whoever is deeper down is killed as he comes up.
  for (const tier of [tiers.cgroup, tiers.none])
    test(`everybody is asked to go before anybody is killed, the stopped ones too, tier ${tier.name}`, async ({
      skip,
    }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(Seat.take(anybody, tier), async ({ crowd, supervised }) => {
        await supervised.spawn({ io: "pipe", argv: [child("goodbye.sh"), crowd.token] }, {});
        const roles = ["leader", "child", "session", "stopped", "daemon"];
        for (const role of roles) await supervised.saw(`here ${role}`);
        await until("the stopped one is stopped", () => crowd.others().some(({ state }) => state === "T"));
        // Far more than they need: nobody of them is to be killed.
        supervised.cancel({ graceMs: 10_000 });
        const record = await ends(supervised, crowd);
        expect(record).toMatchObject({ exit: { reason: "manual-cancel", code: 0 }, residueCount: 0 });
        expect(byes(supervised.output)).toEqual(new Set(roles));
      });
    });

  for (const tier of [tiers.cgroup, tiers.none, tiers.noPidfd])
    test(`one that answers TERM with new daemons, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(Seat.take(anybody, tier), async ({ crowd, supervised }) => {
        await supervised.spawn({ io: "pipe", argv: [child("hydra.sh"), crowd.token] }, { graceMs });
        await supervised.saw("another");
        supervised.cancel({});
        const record = await ends(supervised, crowd);
        expect(record).toMatchObject({ exit: { reason: "manual-cancel", signal: "SIGKILL" } });
      });
    });

  for (const tier of [tiers.cgroup, tiers.none])
    for (const end of ["cancel", "SIGKILL of the anchor"] as const)
      test(`a PID namespace within, after ${end}, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = root.whyNot ?? tier.whyNot;
        if (whyNot !== null) skip(whyNot);
        if (spawnSync("unshare", ["--pid", "--fork", "true"]).status !== 0) skip("no PID namespaces here");
        await onStage(Seat.take(root, tier), async ({ crowd, supervised }) => {
          // The first process of a namespace does not even notice a TERM it has no handler for.
          const script = `sleep 100001.${crowd.token} & setsid sleep 100002.${crowd.token} & wait`;
          const argv = ["unshare", "--pid", "--fork", "sh", "-c", script];
          const { record } = await supervised.spawn({ io: "pipe", argv }, { graceMs });
          await until("both sleep", () => sleepers(crowd).length === 2);
          if (end === "cancel") supervised.cancel({});
          else signal(known(record.anchor), "SIGKILL");
          await ends(supervised, crowd);
        });
      });

  for (const tier of [tiers.cgroup, tiers.none])
    for (const place of ["the leader", "a child"] as const)
      test(`${place} whose first thread has ended, tier ${tier.name}`, async ({ skip }) => {
        const whyNot = tier.whyNot ?? whyNoCompiler;
        if (whyNot !== null) skip(whyNot);
        await onStage(Seat.take(anybody, tier), async ({ crowd, supervised }) => {
          const headless = [join(programs, "headless"), crowd.token];
          const argv =
            place === "the leader" ? headless : ["sh", "-c", '"$@" & read -r _', "sh", ...headless];
          await supervised.spawn({ io: "pipe", argv }, { graceMs });
          await supervised.saw(/headless \d+/);
          const pid = Number(/headless (\d+)/.exec(supervised.output)?.[1]);
          await until("it looks dead", () => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8")));
          expect(threads(pid)).toBe(2);
          supervised.cancel({});
          await ends(supervised, crowd);
          expect(threads(pid)).toBe(0);
        });
      });

  for (const tier of [tiers.cgroup, tiers.none])
    test(`a run within a run, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(Seat.take(anybody, tier), async ({ seat, crowd, supervised }) => {
        const inner = [process.execPath, resolve("dist/cli/main.js"), "run", "--in-process"];
        const argv = [...inner, "--", "sh", scenario, crowd.token];
        await supervised.spawn({ io: "pipe", argv }, { graceMs });
        await until("all of it is there", () => sleepers(crowd).length === 4);
        expect(launchers(seat)).toHaveLength(2);
        supervised.cancel({});
        // The inner launcher and anchor are processes of the run like any other.
        await ends(supervised, crowd, () => expect(launchers(seat)).toHaveLength(1));
      });
    });

  test("far more processes than descriptors to hold them by", async () => {
    const seat = Seat.take(anybody, tiers.none, ["prlimit", "--nofile=256"]);
    await onStage(seat, async ({ crowd, supervised }) => {
      const script = `trap '' TERM; for i in $(seq 500); do sleep 100001.${crowd.token} & done; read -r _`;
      await supervised.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { graceMs });
      await until("all of them sleep", () => sleepers(crowd).length === 500);
      supervised.cancel({});
      const record = await ends(supervised, crowd);
      expect(record.usage?.processes).toBeGreaterThanOrEqual(501);
    });
  });

  for (const end of ["exit", "cancel", "SIGKILL of the anchor"] as const)
    test(`one that has left for another cgroup, after ${end}`, async ({ skip }) => {
      const whyNot = root.whyNot ?? tiers.cgroup.whyNot;
      if (whyNot !== null) skip(whyNot);
      await onStage(Seat.take(root, tiers.cgroup), async ({ seat, crowd, supervised }) => {
        const argv = [child("migrant.sh"), crowd.token, seat.cgroup ?? ""];
        const { record } = await supervised.spawn({ io: "pipe", argv }, { graceMs });
        const migrant = await until("it has moved", () => sleepers(crowd)[0]);
        expect(cgroupOf(migrant)).not.toContain(record.runId);
        if (end === "cancel") supervised.cancel({});
        else if (end === "exit") supervised.write("5\n");
        else signal(known(record.anchor), "SIGKILL");
        const ended = await ends(supervised, crowd);
        if (end !== "exit") return;
        expect(ended.exit).toMatchObject({ reason: "ownership-escape", code: 5 });
        expect(ended.residue).toEqual([expect.objectContaining({ pid: migrant.pid, kind: "migrated" })]);
      });
    });
});

/** Whoever is found has already ended, and whoever follows has not been found: only who buries the dead can tell. */
describe("processes that run from one to the next", () => {
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
        await onStage(Seat.take(anybody, tier), async ({ crowd, supervised }) => {
          for (let round = 0; round < rounds; round++) {
            const argv = [join(programs, "hop"), crowd.token, String(hoppers)];
            const { record } = await supervised.spawn({ io: "pipe", argv }, {});
            await until("it hops", () => supervised.output.match(/hopping/g)?.length === round + 1);
            if (end === "cancel") supervised.cancel({ graceMs: 0 });
            else signal(known(record.anchor), "SIGKILL");
            const ended = (await supervised.hear("ended")).record;
            expect(ended).toMatchObject({ state: "exited", emptiness: "proven" });
            // One look may fall between two of them.
            const seen = Array.from({ length: 30 }, () => crowd.others()).flat();
            expect(seen, `survivors of round ${round}`).toEqual([]);
          }
        });
      });
});

describe.concurrent("a supervision that falters", () => {
  for (const tier of [tiers.cgroup, tiers.none])
    test(`SIGKILL of the anchor in the grace after a cancel, tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await onStage(Seat.take(anybody, tier), async ({ crowd, supervised }) => {
        const { record } = await playScenario(supervised, crowd);
        supervised.cancel({ graceMs: 60_000, actor: "test:me" });
        await until("only the deaf one is left", () => crowd.others().length === 1);
        // Its status is noted before it is buried.
        await until("the leader is buried", () => !existsSync(`/proc/${record.root?.pid}`));
        signal(known(record.anchor), "SIGKILL");
        const ended = await ends(supervised, crowd);
        expect(ended.exit).toMatchObject({ reason: "lost", actor: "test:me", signal: "SIGTERM" });
      });
    });

  test("SIGKILL of the launcher: the anchor alone is enough, and the record does not keep silent about it", async () => {
    await onStage(Seat.take(anybody, tiers.none), async ({ seat, crowd, supervised }) => {
      await playScenario(supervised, crowd);
      for (const launcher of launchers(seat)) signal(launcher, "SIGKILL");
      await until("the launcher is gone", () => launchers(seat).length === 0);
      supervised.cancel({});
      const ended = await ends(supervised, crowd);
      expect(ended.exit).toMatchObject({ reason: "manual-cancel" });
      expect(ended.tier).not.toContain("launcher");
      expect(ended.boundary?.note).toContain("launcher");
    });
  });

  test("SIGKILL of launcher and anchor: with a cgroup, the tree is found and ended", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await onStage(Seat.take(anybody, tiers.cgroup), async ({ seat, crowd, supervised }) => {
      const { record } = await playScenario(supervised, crowd);
      for (const launcher of launchers(seat)) signal(launcher, "SIGKILL");
      signal(known(record.anchor), "SIGKILL");
      const ended = (await supervised.hear("ended")).record;
      expect(crowd.others(), "survivors").toEqual([]);
      expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
      // Life goes on, and the next launcher clears away what the dead one left of its cgroup.
      await supervised.spawn({ io: "pipe", argv: ["true"] }, {});
      expect((await ends(supervised, crowd)).exit).toMatchObject({ reason: "exit", code: 0 });
    });
  });

  test("SIGKILL of launcher and anchor: without a cgroup, what cannot be known is not claimed", async () => {
    await onStage(Seat.take(anybody, tiers.none), async ({ seat, crowd, supervised }) => {
      const { record } = await playScenario(supervised, crowd);
      for (const launcher of launchers(seat)) signal(launcher, "SIGKILL");
      signal(known(record.anchor), "SIGKILL");
      const ended = (await supervised.hear("ended")).record;
      expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
      // Everybody below the recorded root was verified and has been ended; only the daemon's parents were gone before.
      const names = crowd.others().map(({ argv }) => argv.join(" "));
      expect(names.filter((name) => name !== `sleep 100004.${crowd.token}`)).toEqual([]);
      await supervised.close();
    });
  });

  test("SIGKILL of launcher and anchor: who has left the cgroup is not claimed to be gone", async ({
    skip,
  }) => {
    const whyNot = root.whyNot ?? tiers.cgroup.whyNot;
    if (whyNot !== null) skip(whyNot);
    await onStage(Seat.take(root, tiers.cgroup), async ({ seat, crowd, supervised }) => {
      const argv = [child("migrant.sh"), crowd.token, seat.cgroup ?? ""];
      const { record } = await supervised.spawn({ io: "pipe", argv }, { graceMs });
      const migrant = await until("it has moved", () => sleepers(crowd)[0]);
      for (const launcher of launchers(seat)) signal(launcher, "SIGKILL");
      signal(known(record.anchor), "SIGKILL");
      const ended = (await supervised.hear("ended")).record;
      expect({ alive: isAlive(migrant), emptiness: ended.emptiness }).not.toEqual({
        alive: true,
        emptiness: "proven",
      });
      await supervised.spawn({ io: "pipe", argv: ["true"] }, {});
      await supervised.hear("ended");
      await supervised.close();
    });
  });

  test("a supervisor that is stopped cannot make a run immortal", async () => {
    await onStage(Seat.take(anybody, tiers.none), async ({ crowd, supervised }) => {
      const timeoutMs = 1_500;
      await playScenario(supervised, crowd, { timeoutMs });
      supervised.signal("SIGSTOP");
      await crowd.gone(timeoutMs + defaults.backstopMs + graceMs + 5_000);
      supervised.signal("SIGCONT");
      const ended = await ends(supervised, crowd);
      expect(ended.exit).toMatchObject({ reason: "overall-timeout", actor: "anchor", signal: "SIGTERM" });
    });
  });

  for (const [reason, options] of [
    ["overall-timeout", { timeoutMs: 1_500 }],
    ["no-output-timeout", { noOutputTimeoutMs: 1_500 }],
  ] as const)
    test(`without a supervisor the anchor keeps the ${reason}`, async () => {
      const user = nobody.whyNot === null ? nobody : anybody;
      await onStage(Seat.take(user, tiers.none), async ({ seat, crowd, supervised }) => {
        await playScenario(supervised, crowd, { ...options, ownerLossMs: 60_000 });
        await supervised.kill();
        await crowd.gone(10_000);
        await using successor = await Supervised.open(seat);
        successor.order("recover");
        await successor.hear("recovered");
        const { runs } = await successor.list();
        expect(runs).toHaveLength(1);
        expect(runs[0]).toMatchObject({ emptiness: "proven", exit: { reason, actor: "anchor" } });
        await successor.close();
      });
    });
});

/** Plays on a seat with a bystander, who must be there to the last. */
async function onStage(taken: Seat, play: (stage: Stage) => Promise<void>): Promise<void> {
  await using seat = taken;
  await using crowd = await Crowd.ofSleeper(seat);
  await using supervised = await Supervised.open(seat);
  await play({ seat, crowd, supervised });
  expect(crowd.missing(), "the bystander").toEqual([]);
}

async function playScenario(
  supervised: Supervised,
  crowd: Crowd,
  options: object = {},
): Promise<{ record: RunRecord }> {
  const started = await supervised.spawn(
    { io: "pipe", argv: ["sh", scenario, crowd.token] },
    { graceMs, ...options },
  );
  await crowd.complete();
  return started;
}

function byes(output: string): Set<string> {
  return new Set(Array.from(output.matchAll(/bye (\w+)/g), ([, role]) => role ?? ""));
}

/** Proven empty, which is true at once; and the library closes without a word. */
async function ends(
  supervised: Supervised,
  crowd: Crowd,
  checkAtOnce: () => void = () => {},
): Promise<RunRecord> {
  const { record } = await supervised.hear("ended");
  expect(crowd.others(), "survivors").toEqual([]);
  checkAtOnce();
  expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
  const { events } = await supervised.list();
  expect(events.filter(({ type, runId }) => type === "exit" && runId === record.runId)).toHaveLength(1);
  await supervised.hear("silent");
  await supervised.close();
  return record;
}

function child(name: string): string {
  return fileURLToPath(new URL(`children/${name}`, import.meta.url));
}

function sleepers(crowd: Crowd): Living[] {
  return crowd.others().filter(({ argv: [command] }) => command === "sleep");
}

function launchers(seat: Seat): Living[] {
  return seat.machinery().filter(({ argv: [, mode] }) => mode === "launch");
}

function cgroupOf({ pid }: Living): string {
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
