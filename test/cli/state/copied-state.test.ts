import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { RecoveryFixture, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { CliFixture, type CliResult } from "../../support/cli/cli-fixture.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

/** A state directory with a live run, and a copy of it as `cp -a` makes it. */
async function copied(env: NodeJS.ProcessEnv = {}) {
  const fixture = await RecoveryFixture.open();
  const gateway = await fixture.gateway(env);
  const runId = await detached(fixture, env);
  const copy = new Copy(`${fixture.home}-copy`);
  expect(spawnSync("cp", ["-a", fixture.home, copy.home]).status).toBe(0);
  // A process with the markers of the run that does not belong to it.
  const marked = spawn("sleep", ["3600"], {
    stdio: "ignore",
    env: { ...process.env, HOLDFAST_RUN_ID: runId },
  });
  onTestFinished(() => void marked.kill("SIGKILL"));
  return { field: fixture, gateway, runId, copy, marked };
}

class Copy extends CliFixture {
  /** Every file with its content. */
  content(): Record<string, string> {
    const names = readdirSync(this.home, { recursive: true, withFileTypes: true });
    return Object.fromEntries(
      names
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => [
          join(parentPath, name),
          readFileSync(join(parentPath, name), "base64"),
        ]),
    );
  }
}

async function detached(fixture: CliFixture, env: NodeJS.ProcessEnv): Promise<string> {
  const { child, finished } = fixture.startWith(
    env,
    "run",
    "-d",
    "--grace",
    "200ms",
    "--",
    "sh",
    "-c",
    TWO_PROCESSES,
  );
  child.stdin.end();
  return (await finished).stdout.trim();
}

async function holdfast(
  cliFixture: CliFixture,
  env: NodeJS.ProcessEnv,
  ...args: readonly string[]
): Promise<CliResult> {
  const { child, finished } = cliFixture.startWith(env, ...args);
  child.stdin.end();
  return withTimeout(15_000, `${args.join(" ")} ends`, finished);
}

const REFUSED = /^holdfast: the state directory \S+-copy is a copy of \S+.*holdfast state reset-identity/;

describe("a copied state directory", () => {
  test("is refused by every command, which change nothing, until it gets its own identity with `state reset-identity`", async () => {
    const { field: fixture, runId, copy, marked } = await copied();
    await using _ = fixture;
    await using __ = copy;
    await using cli = new BatchCli(copy.env);
    const before = copy.content();
    const members = await fixture.membersOf(runId);
    const { leaseEpoch } = await fixture.record(runId);
    for (const command of [
      ["ps"],
      ["ps", "--json"],
      ["runs", "list"],
      ["runs", "show", runId],
      ["runs", "cancel", runId],
      ["runs", "cleanup", "--all-orphans", "--dry-run"],
      ["runs", "cleanup", "--run", runId, "--yes"],
      ["who", String(members[0])],
      ["logs", runId],
      ["process", "kill", runId],
      ["acp", "list"],
      ["acp", "close", "some"],
      ["tasks"],
      ["events"],
      ["gateway", "start"],
      ["gateway", "run"],
      ["gateway", "status"],
      ["gateway", "stop"],
      ["run", "--", "true"],
    ]) {
      const { code, stdout, stderr } = await cli.holdfast(...command);
      expect({ command, code, stdout }).toEqual({ command, code: 1, stdout: "" });
      expect(stderr).toMatch(REFUSED);
    }
    const doctor = await cli.holdfast("doctor");
    expect(doctor.stdout).toMatch(/bad +state directory +.*is a copy of/);
    expect(await holdfast(copy, {}, "help")).toMatchObject({ code: 0 });
    const shown = JSON.parse((await cli.holdfast("state", "show", "--json")).stdout) as object;
    expect(shown).toMatchObject({ home: copy.home, copyOf: fixture.home });

    expect(copy.content()).toEqual(before);
    expect(await fixture.membersOf(runId)).toEqual(members);
    expect(await fixture.record(runId)).toMatchObject({ state: "running", leaseEpoch });

    // It gets its own identity with `state reset-identity`; the runs of the original continue there.
    expect(await holdfast(copy, {}, "state", "reset-identity")).toMatchObject({ code: 2 });
    const reset = await holdfast(copy, {}, "state", "reset-identity", "--yes", "--json");
    expect(reset).toMatchObject({ code: 0, stderr: "" });
    const { stateId, runs } = JSON.parse(reset.stdout) as { stateId: string; runs: readonly string[] };
    expect(runs).toEqual([runId]);
    expect(stateId).not.toBe(readFileSync(join(fixture.home, "state-id"), "utf8").trim());
    const run = JSON.parse((await holdfast(copy, {}, "runs", "show", runId, "--json")).stdout) as object;
    expect(run).toMatchObject({
      state: "exited",
      emptiness: "unproven",
      exit: { reason: "lost", detail: expect.stringContaining("copy") as string },
    });
    expect(await holdfast(copy, {}, "gateway", "start")).toMatchObject({ code: 0 });
    expect(readFileSync(join(copy.home, "gateway-id"), "utf8")).not.toBe(
      readFileSync(join(fixture.home, "gateway-id"), "utf8"),
    );
    expect(await holdfast(copy, { HOLDFAST_IN_PROCESS: "" }, "run", "--", "true")).toMatchObject({ code: 0 });
    expect(await holdfast(copy, {}, "gateway", "stop")).toMatchObject({ code: 0 });
    expect(await holdfast(copy, {}, "state", "reset-identity", "--yes")).toMatchObject({ code: 1 });

    expect(await fixture.membersOf(runId)).toEqual(members);
    expect(await fixture.record(runId)).toMatchObject({ state: "running" });
    expect(marked.exitCode).toBeNull();
    await fixture.holdfast("runs", "cancel", runId);
  });

  test.skipIf(whyNoPostgres !== null)(
    "on a shared database acquires no run of the original, before and after `state reset-identity`",
    async () => {
      const server = await startPostgresServer();
      onTestFinished(() => server[Symbol.asyncDispose]());
      const env = { HOLDFAST_DATABASE_URL: (await server.createDatabase()).url };
      const { field: fixture, gateway, runId, copy } = await copied(env);
      await using _ = fixture;
      await using __ = copy;
      const members = await fixture.membersOf(runId);
      const epoch = async (): Promise<number> => {
        const { stdout } = await holdfast(fixture, env, "runs", "show", runId, "--json");
        return (JSON.parse(stdout) as { leaseEpoch: number }).leaseEpoch;
      };
      const before = await epoch();
      expect((await holdfast(copy, env, "gateway", "start")).stderr).toMatch(REFUSED);
      expect(await holdfast(copy, env, "state", "reset-identity", "--yes")).toMatchObject({ code: 0 });
      expect(await holdfast(copy, env, "gateway", "start")).toMatchObject({ code: 0 });
      expect(await epoch()).toBe(before);
      expect(await fixture.membersOf(runId)).toEqual(members);
      const own = JSON.parse((await holdfast(copy, env, "gateway", "status", "--json")).stdout) as {
        runs: number;
      };
      expect(own.runs).toBe(0);
      expect(await holdfast(copy, env, "gateway", "stop")).toMatchObject({ code: 0 });
      await holdfast(fixture, env, "runs", "cancel", runId);
      await gateway.kill("SIGTERM");
    },
  );
});

describe("not a copy", () => {
  test("is a directory that was renamed, or is reached through a bind mount", async ({ skip }) => {
    await using fixture = await RecoveryFixture.open();
    const gateway = await fixture.gateway();
    const runId = await detached(fixture, {});
    await gateway.kill();
    const moved = `${fixture.home}-moved`;
    await rename(fixture.home, moved);
    await mkdir(fixture.home, { mode: 0o700 });
    try {
      if (spawnSync("mount", ["--bind", moved, fixture.home]).status !== 0)
        skip("no bind mount can be made here");
      for (const home of [moved, fixture.home]) {
        const { stdout, stderr } = await holdfast(fixture, { HOLDFAST_HOME: home }, "runs", "list", "--json");
        expect(stderr).toBe("");
        expect(JSON.parse(stdout)).toMatchObject([{ runId, state: "running" }]);
      }
      await holdfast(fixture, {}, "runs", "cancel", runId);
    } finally {
      spawnSync("umount", [fixture.home]);
      await rm(fixture.home, { recursive: true, force: true });
      await rename(moved, fixture.home);
    }
  });

  test("is a directory that was moved to another file system without open runs; that is reported once", async () => {
    await using fixture = await RecoveryFixture.open();
    expect(await fixture.holdfast("run", "--", "true")).toMatchObject({ code: 0 });
    const { ino } = await stat(fixture.home);
    // As mv does between file systems.
    expect(spawnSync("cp", ["-a", fixture.home, `${fixture.home}-new`]).status).toBe(0);
    await rm(fixture.home, { recursive: true });
    await rename(`${fixture.home}-new`, fixture.home);
    expect((await stat(fixture.home)).ino).not.toBe(ino);
    const listed = await fixture.holdfast("runs", "list", "--all");
    expect(listed.code).toBe(0);
    expect(listed.stderr).toContain("was moved");
    expect((await fixture.holdfast("run", "--", "true")).code).toBe(0);
    expect(await fixture.holdfast("runs", "list", "--all")).toMatchObject({ code: 0, stderr: "" });
  });

  test("is a restored backup after `state keep-identity`", async () => {
    await using fixture = await RecoveryFixture.open();
    const gateway = await fixture.gateway();
    const runId = await detached(fixture, {});
    await gateway.kill();
    const away = `${fixture.home}-away`;
    expect(spawnSync("cp", ["-a", fixture.home, `${fixture.home}-backup`]).status).toBe(0);
    // The backup cannot replace an original that still exists.
    const backup = await holdfast(
      fixture,
      { HOLDFAST_HOME: `${fixture.home}-backup` },
      "state",
      "keep-identity",
      "--yes",
    );
    expect(backup).toMatchObject({ code: 1 });
    await rename(fixture.home, away);
    await rename(`${fixture.home}-backup`, fixture.home);
    expect((await fixture.holdfast("ps")).stderr).toContain("is a copy");
    expect(await fixture.holdfast("state", "keep-identity", "--yes")).toMatchObject({ code: 0 });
    expect(existsSync(join(fixture.home, "gateway-id"))).toBe(true);
    const next = await fixture.gateway();
    // The anchor notices within seconds that its directory was replaced.
    await waitFor(
      "the run is stopped",
      async () => (await fixture.holdfast("runs", "cancel", runId)).code === 0,
      20_000,
    );
    await fixture.waitForEnd(runId);
    await next.kill("SIGTERM");
    await rm(away, { recursive: true });
  });
});
