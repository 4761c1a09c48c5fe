import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { findAnchor } from "../../../src/anchor/find.js";
import { isAlive, living, signal, until, type Living } from "../../tree/living.js";
import { tiers, type Tier } from "../../tree/seat.js";
import { House } from "../../reconcile/house.js";
import { FIRST } from "../../reconcile/orphan.js";
import { main } from "../stage.js";

interface Listed {
  readonly runId: string;
  readonly instanceId: string;
  readonly anchor: { readonly pid: number } | null;
  readonly processes: readonly { readonly identity: { readonly pid: number }; readonly command: string }[];
  readonly whyNot: string | null;
  readonly outcome?: string;
}

/** A service whose gateway is dead, and whose state directory has been removed. */
async function removed(
  house: House,
): Promise<{ runId: string; members: readonly Living[]; marked: ChildProcess }> {
  const keeper = await house.keeper(FIRST);
  const { token } = house.crowd;
  const { runId } = await keeper.spawn(
    house.script(`setsid sleep 100003.${token} & sleep 100001.${token}; :`),
    {
      kind: "service",
      graceMs: 200,
    },
  );
  await until("all three are there", () => house.crowd.others().length === 3);
  // It has the run's markers and no other connection with it.
  const marked = spawn("sleep", ["3600"], {
    stdio: "ignore",
    env: { ...process.env, HOLDFAST_RUN_ID: runId, HOLDFAST_GATEWAY_INSTANCE_ID: FIRST },
  });
  onTestFinished(() => void marked.kill("SIGKILL"));
  await keeper.kill();
  const members = house.crowd.others();
  rmSync(house.home, { recursive: true });
  return { runId, members, marked };
}

async function holdfast(
  house: House,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  return holdfastWith({}, house, ...args);
}

async function holdfastWith(
  env: Readonly<Record<string, string>>,
  house: House,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const changed = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const child = house.seat.spawn(["env", ...changed, process.execPath, main, ...args], "pipe");
  child.stdin?.end();
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (data: Buffer) => (stdout += data.toString()));
  child.stderr?.on("data", (data: Buffer) => (stderr += data.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

async function listed(house: House, runId: string, ...args: readonly string[]): Promise<Listed | undefined> {
  const only = ["--run", runId, "--json"];
  const { stdout } = await holdfast(house, "runs", "cleanup", "--without-state", ...only, ...args);
  return (JSON.parse(stdout) as { runs: readonly Listed[] }).runs.find((each) => each.runId === runId);
}

/** An anchor program that runs `before` and then does what it is asked to; `$real` is the real one. */
function anchorThat(house: House, before: string): Readonly<Record<string, string>> {
  const path = join(house.seat.directory, "anchor-wrapper");
  writeFileSync(path, `#!/bin/sh\nreal='${findAnchor()}'\n${before}\nexec "$real" "$@"\n`, { mode: 0o755 });
  return { HOLDFAST_ANCHOR: path };
}

/** Of one run: other tests of this namespace have runs without state, too. */
const cleanup = (runId: string): readonly string[] => {
  return ["runs", "cleanup", "--without-state", "--run", runId, "--yes", "--json"];
};

describe("a service whose state directory was renamed", () => {
  for (const tier of [tiers.none, tiers.cgroup] as readonly Tier[])
    test(`has a state directory: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const keeper = await house.keeper(FIRST);
      const { runId } = await keeper.spawn(house.script("echo up; read line"), {
        kind: "service",
        graceMs: 200,
      });
      const members = house.crowd.others();
      expect(members).not.toEqual([]);
      const moved = { HOLDFAST_HOME: `${house.home}2` };
      const unrelated = { HOLDFAST_HOME: mkdtempSync(join(house.seat.directory, "other-")) };
      renameSync(house.home, moved.HOLDFAST_HOME);
      for (const owner of ["lives", "is dead"]) {
        if (owner === "is dead") await keeper.kill();
        for (const env of [moved, unrelated]) {
          expect((await holdfastWith(env, house, "ps")).stderr, owner).not.toContain(runId);
          const { code, stdout } = await holdfastWith(env, house, ...cleanup(runId));
          expect({ code, ...(JSON.parse(stdout) as object) }, owner).toEqual({ code: 0, runs: [] });
          expect(members.every(isAlive), owner).toBe(true);
        }
      }
      renameSync(moved.HOLDFAST_HOME, house.home);
      expect(await holdfast(house, "runs", "cancel", runId)).toMatchObject({ code: 0 });
    }, 60_000);

  test("is left alone when only its supervisor's lock shows the new path", async () => {
    await using house = await House.open(tiers.none);
    const keeper = await house.keeper(FIRST);
    const { runId } = await keeper.spawn(house.script("echo up; read line"), {
      kind: "service",
      graceMs: 200,
    });
    const members = house.crowd.others();
    renameSync(house.home, `${house.home}2`);
    rmSync(join(`${house.home}2`, "instances", FIRST, "runs"), { recursive: true });
    expect((await listed(house, runId, "--yes"))?.whyNot).toMatch(/supervisor, process \d+, lives/);
    expect(members.every(isAlive)).toBe(true);
    await keeper.kill();
    expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
  }, 60_000);
});

describe("a service whose state directory was removed", () => {
  for (const tier of [tiers.none, tiers.cgroup] as readonly Tier[])
    test(`is shown by ps, who and doctor, and ended only when asked: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const { runId, members, marked } = await removed(house);
      const [first] = members;
      const ps = await holdfast(house, "ps");
      expect(ps.stderr).toContain(`without a state directory: run ${runId} of instance ${FIRST}`);
      const doctor = await holdfast(house, "doctor", "--json");
      expect(doctor.stdout).toContain(`without a state directory: run ${runId}`);
      const who = await holdfast(house, "who", String(first?.pid), "--json");
      expect(JSON.parse(who.stdout)).toMatchObject({
        withoutState: true,
        runId,
        instanceId: FIRST,
        role: "member",
      });
      // A marker alone is a claim.
      expect(await holdfast(house, "who", String(marked.pid))).toMatchObject({ code: 1, stdout: "" });

      const shown = await listed(house, runId, "--dry-run");
      expect(shown).toMatchObject({ instanceId: FIRST, whyNot: null });
      const pids = shown?.processes.map(({ identity }) => identity.pid).toSorted((a, b) => a - b);
      expect(pids).toEqual(members.map(({ pid }) => pid).toSorted((a, b) => a - b));
      expect(members.every(isAlive)).toBe(true);

      expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
      expect(members.some(isAlive)).toBe(false);
      expect(marked.exitCode).toBeNull();
      expect(await listed(house, runId, "--dry-run")).toBeUndefined();
    }, 60_000);

  test("is left alone when only another run is to be ended", async () => {
    await using house = await House.open(tiers.none);
    const { runId, members } = await removed(house);
    const { code, stdout } = await holdfast(house, ...cleanup("run_another"));
    expect({ code, ...(JSON.parse(stdout) as object) }).toEqual({ code: 0, runs: [] });
    expect(members.every(isAlive)).toBe(true);
    expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
  }, 60_000);

  test("is left alone while its supervisor lives", async () => {
    await using house = await House.open(tiers.none);
    const keeper = await house.keeper(FIRST);
    const { runId } = await keeper.spawn(house.script("echo up; read line"), {
      kind: "service",
      graceMs: 200,
    });
    const members = house.crowd.others();
    rmSync(house.home, { recursive: true });
    expect((await listed(house, runId, "--yes"))?.whyNot).toMatch(/supervisor, process \d+, lives/);
    expect(members.every(isAlive)).toBe(true);
    await keeper.kill();
    expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
  }, 60_000);

  test("without anchor and launcher is ended by its cgroup and the markers of its processes", async ({
    skip,
  }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using house = await House.open(tiers.cgroup);
    const { runId, members, marked } = await removed(house);
    await house.silence(FIRST);
    expect(await listed(house, runId, "--dry-run")).toMatchObject({ anchor: null, whyNot: null });
    expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
    expect(members.some(isAlive)).toBe(false);
    expect(marked.exitCode).toBeNull();
  }, 60_000);

  test("without anchor, launcher and cgroup is only a claim, and never ended", async () => {
    await using house = await House.open(tiers.none);
    const { runId, members } = await removed(house);
    await house.silence(FIRST);
    expect(await listed(house, runId, "--yes")).toBeUndefined();
    expect(members.every(isAlive)).toBe(true);
    for (const one of members) signal(one, "SIGKILL");
    expect(living(house.home)).toEqual([]);
  }, 60_000);

  test("is left alone when its directory comes back while the operator decides", async () => {
    await using house = await House.open(tiers.none);
    const { runId, members } = await removed(house);
    const directory = join(house.home, "instances", FIRST);
    const seen = join(house.seat.directory, "seen");
    const env = anchorThat(
      house,
      `[ "$1" != survey ] || if [ -e '${seen}' ]; then mkdir -p '${directory}'; else : >'${seen}'; fi`,
    );
    const { code, stdout } = await holdfastWith(env, house, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [{ runId, outcome: "left-alone", detail: "it is no longer without a state directory" }],
    });
    expect(code).toBe(3);
    expect(members.every(isAlive)).toBe(true);
    // Its anchor may be making its run directory anew.
    await until("the run is listed again", async () => {
      rmSync(house.home, { recursive: true, force: true });
      return (await listed(house, runId, "--dry-run")) !== undefined;
    });
    expect(await listed(house, runId, "--yes")).toMatchObject({ outcome: "gone" });
  }, 60_000);

  test("is called gone when it ends while the operator decides", async () => {
    await using house = await House.open(tiers.none);
    const { runId, members } = await removed(house);
    const machinery = [...house.anchors(FIRST), ...house.launchers(FIRST)];
    const pids = [...machinery, ...members].map(({ pid }) => pid).join(" ");
    const seen = join(house.seat.directory, "seen");
    const env = anchorThat(
      house,
      `[ "$1" != survey ] || if [ -e '${seen}' ]; then kill -9 ${pids}; sleep 0.5; else : >'${seen}'; fi`,
    );
    const { code, stdout } = await holdfastWith(env, house, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({ runs: [{ runId, outcome: "gone" }] });
    expect(code).toBe(0);
  }, 60_000);

  test("is not called gone when its emptiness is not proven", async () => {
    await using house = await House.open(tiers.none);
    const { runId } = await removed(house);
    const env = anchorThat(
      house,
      `[ "$1" != reap ] || { "$real" "$@" | sed 's/"emptiness":"proven"/"emptiness":"unproven"/'; exit 0; }`,
    );
    const { code, stdout } = await holdfastWith(env, house, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [{ runId, outcome: "unproven", detail: expect.stringContaining("not proven") }],
    });
    expect(code).toBe(3);
  }, 60_000);
});
