import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { findByCommandLine, isAlive, type LiveProcess, signalProcess } from "../../support/live-processes.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import { FIRST_INSTANCE, SharedHome } from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";

interface Listed {
  readonly runId: string;
  readonly instanceId: string;
  readonly anchor: { readonly pid: number } | null;
  readonly processes: readonly { readonly identity: { readonly pid: number }; readonly command: string }[];
  readonly whyNot: string | null;
  readonly outcome?: string;
}

let batchCli: BatchCli;
beforeAll(() => {
  batchCli = new BatchCli(process.env);
});
afterAll(() => batchCli[Symbol.asyncDispose]());

/** Starts a service, kills its supervisor, and removes its state directory. */
async function removed(
  sharedHome: SharedHome,
): Promise<{ runId: string; members: readonly LiveProcess[]; marked: ChildProcess }> {
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const { token } = sharedHome.tokenProcesses;
  const { runId } = await supervisorProcess.spawn(
    sharedHome.script(`setsid sleep 100003.${token} & sleep 100001.${token}; :`),
    {
      kind: "service",
      graceMs: 200,
    },
  );
  await waitFor("all three processes have started", () => sharedHome.tokenProcesses.ofRuns().length === 3);
  // A process with the markers of the run that does not belong to it.
  const marked = spawn("sleep", ["3600"], {
    stdio: "ignore",
    env: { ...process.env, HOLDFAST_RUN_ID: runId, HOLDFAST_GATEWAY_INSTANCE_ID: FIRST_INSTANCE },
  });
  onTestFinished(() => void marked.kill("SIGKILL"));
  await supervisorProcess.kill();
  const members = sharedHome.tokenProcesses.ofRuns();
  rmSync(sharedHome.home, { recursive: true });
  return { runId, members, marked };
}

/** Starts a service with one process. */
async function startService(sharedHome: SharedHome) {
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const options = { kind: "service", graceMs: 200 } as const;
  const { runId } = await supervisorProcess.spawn(sharedHome.script("echo up; read line"), options);
  const members = sharedHome.tokenProcesses.ofRuns();
  expect(members).not.toEqual([]);
  return { supervisorProcess, runId, members };
}

async function holdfast(
  sharedHome: SharedHome,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  return holdfastWith({}, sharedHome, ...args);
}

async function holdfastWith(
  env: Readonly<Record<string, string>>,
  sharedHome: SharedHome,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  // Only a sandbox with a cgroup needs a process of its own.
  if (sharedHome.sandbox.cgroup === null) {
    const { HOME = "", HOLDFAST_HOME = "", HOLDFAST_ANCHOR_WEAKEN = "" } = sharedHome.sandbox.env;
    return batchCli.holdfastWith({ HOME, HOLDFAST_HOME, HOLDFAST_ANCHOR_WEAKEN, ...env }, ...args);
  }
  const changed = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const child = sharedHome.sandbox.spawn(["env", ...changed, process.execPath, cliPath, ...args], "pipe");
  child.stdin?.end();
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (data: Buffer) => (stdout += data.toString()));
  child.stderr?.on("data", (data: Buffer) => (stderr += data.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

async function listed(
  sharedHome: SharedHome,
  runId: string,
  ...args: readonly string[]
): Promise<Listed | undefined> {
  const only = ["--run", runId, "--json"];
  const { stdout } = await holdfast(sharedHome, "runs", "cleanup", "--without-state", ...only, ...args);
  return (JSON.parse(stdout) as { runs: readonly Listed[] }).runs.find((each) => each.runId === runId);
}

/** An anchor program that runs `before` and then the real one, `$real`. */
function anchorThat(sharedHome: SharedHome, before: string): Readonly<Record<string, string>> {
  const path = join(sharedHome.sandbox.directory, "anchor-wrapper");
  writeFileSync(path, `#!/bin/sh\nreal='${findAnchorBinary()}'\n${before}\nexec "$real" "$@"\n`, {
    mode: 0o755,
  });
  return { HOLDFAST_ANCHOR: path };
}

/** For one run: other tests of this namespace also have runs without state. */
const cleanup = (runId: string): readonly string[] => {
  return ["runs", "cleanup", "--without-state", "--run", runId, "--yes", "--json"];
};

describe("a service whose state directory was renamed", () => {
  for (const tier of [tiers.none, tiers.cgroup] as readonly SandboxTier[])
    test(`has a state directory: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const { supervisorProcess, runId, members } = await startService(sharedHome);
      const moved = { HOLDFAST_HOME: `${sharedHome.home}2` };
      const unrelated = { HOLDFAST_HOME: mkdtempSync(join(sharedHome.sandbox.directory, "other-")) };
      renameSync(sharedHome.home, moved.HOLDFAST_HOME);
      for (const owner of ["lives", "is dead"]) {
        if (owner === "is dead") await supervisorProcess.kill();
        for (const env of [moved, unrelated]) {
          expect((await holdfastWith(env, sharedHome, "ps")).stderr, owner).not.toContain(runId);
          const { code, stdout } = await holdfastWith(env, sharedHome, ...cleanup(runId));
          expect({ code, ...(JSON.parse(stdout) as object) }, owner).toEqual({ code: 0, runs: [] });
          expect(members.every(isAlive), owner).toBe(true);
        }
      }
      renameSync(moved.HOLDFAST_HOME, sharedHome.home);
      expect(await holdfast(sharedHome, "runs", "cancel", runId)).toMatchObject({ code: 0 });
    });
});

describe("a service whose state directory was removed", () => {
  for (const tier of [tiers.none, tiers.cgroup] as readonly SandboxTier[])
    test(`is shown by ps, who and doctor, and ended only on request: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const { runId, members, marked } = await removed(sharedHome);
      const [first] = members;
      const ps = await holdfast(sharedHome, "ps");
      expect(ps.stderr).toContain(`without a state directory: run ${runId} of instance ${FIRST_INSTANCE}`);
      const doctor = await holdfast(sharedHome, "doctor", "--json");
      expect(doctor.stdout).toContain(`without a state directory: run ${runId}`);
      const who = await holdfast(sharedHome, "who", String(first?.pid), "--json");
      expect(JSON.parse(who.stdout)).toMatchObject({
        withoutState: true,
        runId,
        instanceId: FIRST_INSTANCE,
        role: "member",
      });
      // A marker alone is a claim.
      expect(await holdfast(sharedHome, "who", String(marked.pid))).toMatchObject({ code: 1, stdout: "" });

      const shown = await listed(sharedHome, runId, "--dry-run");
      expect(shown).toMatchObject({ instanceId: FIRST_INSTANCE, whyNot: null });
      const pids = shown?.processes.map(({ identity }) => identity.pid).toSorted((a, b) => a - b);
      expect(pids).toEqual(members.map(({ pid }) => pid).toSorted((a, b) => a - b));
      expect(members.every(isAlive)).toBe(true);

      const another = await holdfast(sharedHome, ...cleanup("run_another"));
      expect({ code: another.code, ...(JSON.parse(another.stdout) as object) }).toEqual({
        code: 0,
        runs: [],
      });
      expect(members.every(isAlive)).toBe(true);

      expect(await listed(sharedHome, runId, "--yes")).toMatchObject({ outcome: "gone" });
      expect(members.some(isAlive)).toBe(false);
      expect(marked.exitCode).toBeNull();
      expect(await listed(sharedHome, runId, "--dry-run")).toBeUndefined();
    });

  test.each<[string, (home: string) => void]>([
    ["", (home) => rmSync(home, { recursive: true })],
    [
      " and only its lock shows the new path",
      (home) => {
        renameSync(home, `${home}2`);
        rmSync(join(`${home}2`, "instances", FIRST_INSTANCE, "runs"), { recursive: true });
      },
    ],
  ])("is left alone while its supervisor is alive%s", async (_, removeHome) => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const { supervisorProcess, runId, members } = await startService(sharedHome);
    removeHome(sharedHome.home);
    expect((await listed(sharedHome, runId, "--yes"))?.whyNot).toMatch(/supervisor, process \d+, is alive/);
    expect(members.every(isAlive)).toBe(true);
    await supervisorProcess.kill();
    expect(await listed(sharedHome, runId, "--yes")).toMatchObject({ outcome: "gone" });
  });

  test("without anchor and launcher is found by its cgroup and its markers, and ended", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using sharedHome = await SharedHome.open(tiers.cgroup);
    const { runId, members, marked } = await removed(sharedHome);
    await sharedHome.stopAnchors(FIRST_INSTANCE);
    expect(await listed(sharedHome, runId, "--dry-run")).toMatchObject({ anchor: null, whyNot: null });
    expect(await listed(sharedHome, runId, "--yes")).toMatchObject({ outcome: "gone" });
    expect(members.some(isAlive)).toBe(false);
    expect(marked.exitCode).toBeNull();
  }, 60_000);

  test("without anchor, launcher and cgroup is only a claim, and not ended", async () => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const { runId, members } = await removed(sharedHome);
    await sharedHome.stopAnchors(FIRST_INSTANCE);
    expect(await listed(sharedHome, runId, "--yes")).toBeUndefined();
    expect(members.every(isAlive)).toBe(true);
    for (const one of members) signalProcess(one, "SIGKILL");
    expect(findByCommandLine(sharedHome.home)).toEqual([]);
  });

  test("is left alone when its directory is restored during the confirmation", async () => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const { runId, members } = await removed(sharedHome);
    const directory = join(sharedHome.home, "instances", FIRST_INSTANCE);
    const seen = join(sharedHome.sandbox.directory, "seen");
    const env = anchorThat(
      sharedHome,
      `[ "$1" != survey ] || if [ -e '${seen}' ]; then mkdir -p '${directory}'; else : >'${seen}'; fi`,
    );
    const { code, stdout } = await holdfastWith(env, sharedHome, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [{ runId, outcome: "left-alone", detail: "it is no longer without a state directory" }],
    });
    expect(code).toBe(3);
    expect(members.every(isAlive)).toBe(true);
    // The anchor may create its run directory again.
    await waitFor("the run is listed again", async () => {
      rmSync(sharedHome.home, { recursive: true, force: true });
      return (await listed(sharedHome, runId, "--dry-run")) !== undefined;
    });
    expect(await listed(sharedHome, runId, "--yes")).toMatchObject({ outcome: "gone" });
  });

  test("is reported as gone when it ends during the confirmation", async () => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const { runId, members } = await removed(sharedHome);
    const machinery = [...sharedHome.anchors(FIRST_INSTANCE), ...sharedHome.launchers(FIRST_INSTANCE)];
    const pids = [...machinery, ...members].map(({ pid }) => pid).join(" ");
    const seen = join(sharedHome.sandbox.directory, "seen");
    const env = anchorThat(
      sharedHome,
      `[ "$1" != survey ] || if [ -e '${seen}' ]; then kill -9 ${pids}; sleep 0.5; else : >'${seen}'; fi`,
    );
    const { code, stdout } = await holdfastWith(env, sharedHome, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({ runs: [{ runId, outcome: "gone" }] });
    expect(code).toBe(0);
  });

  test("is not reported as gone when its emptiness is not proven", async () => {
    await using sharedHome = await SharedHome.open(tiers.none);
    const { runId } = await removed(sharedHome);
    const env = anchorThat(
      sharedHome,
      `[ "$1" != reap ] || { "$real" "$@" | sed 's/"emptiness":"proven"/"emptiness":"unproven"/'; exit 0; }`,
    );
    const { code, stdout } = await holdfastWith(env, sharedHome, ...cleanup(runId));
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [{ runId, outcome: "unproven", detail: expect.stringContaining("not proven") }],
    });
    expect(code).toBe(3);
  });
});
