import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { postgresForSuite, whyNoPostgres } from "../../support/store/postgres-server.js";
import { RecoveryFixture, RunGate, whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { CliFixture } from "../../support/cli/cli-fixture.js";

describe.skipIf(whyNoPostgres !== null)("store", { timeout: 120_000 }, () => {
  const server = postgresForSuite();

  test("open runs survive a copy to PostgreSQL and back, and their real ends are recorded", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    await using gate = await RunGate.create();
    const url = (await server.createDatabase()).url;
    const env = { HOLDFAST_DATABASE_URL: url };
    const copy = (...words: readonly string[]) =>
      gatewayFixture.startWith(env, "store", "copy", ...words).finished;

    const first = await gatewayFixture.gateway();
    const runId = await gatewayFixture.startScript(gate.waitScript(3));
    await gatewayFixture.waitForOutput(runId, "up");
    const processes = await gatewayFixture.membersOf(runId);
    const refused = await copy("--from", gatewayFixture.store, "--to", "env:HOLDFAST_DATABASE_URL");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^holdfast: nothing was copied: supervisor in_\w+ is at work in /);
    await first.kill("SIGTERM");

    const there = await copy("--from", gatewayFixture.store, "--to", "env:HOLDFAST_DATABASE_URL");
    expect(there).toMatchObject({ code: 0, stderr: "" });
    expect(there.stdout).toMatch(/^runs +1 +[0-9a-f]{32}$/m);
    const second = await gatewayFixture.gateway(env);
    const { getRun } = await gatewayFixture.client();
    expect(await getRun({ params: { runId } })).toMatchObject({ runId, state: "running" });
    expect(await gatewayFixture.membersOf(runId)).toEqual(processes);
    await gatewayFixture.waitForOutput(runId, "up");
    await second.kill("SIGTERM");

    for (const end of ["", "-wal", "-shm"])
      await rename(`${gatewayFixture.store}${end}`, `${gatewayFixture.store}.old${end}`).catch(() => {});
    const back = await copy("--from", "env:HOLDFAST_DATABASE_URL", "--to", gatewayFixture.store, "--json");
    expect(JSON.parse(back.stdout)).toMatchObject({ to: gatewayFixture.store });
    const third = await gatewayFixture.gateway();
    expect(await gatewayFixture.membersOf(runId)).toEqual(processes);
    await gate.release();
    expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "exit", code: 3 },
      emptiness: "proven",
    });
    const types = (await gatewayFixture.events(runId)).map(({ type }) => type);
    expect(types).toContain("spawn");
    expect(types.filter((type) => type === "exit")).toHaveLength(1);
    await third.kill("SIGTERM");
  });

  test("a password on the command line works with a warning and is not printed", async () => {
    await using cliFixture = await CliFixture.open();
    const database = await server.createDatabase();
    const url = database.url.replace("postgres@", "postgres:hunter2@");
    await cliFixture.holdfast("run", "--", "true");
    const store = join(cliFixture.home, "store.sqlite");
    const copied = await cliFixture.holdfast("store", "copy", "--from", store, "--to", url);
    expect(copied).toMatchObject({ code: 0 });
    expect(copied.stderr).toMatch(/^holdfast: the command line has a password/);
    expect(copied.stdout).toContain(`to postgres database ${database.name} at`);
    expect(copied.stdout + copied.stderr).not.toContain("hunter2");
    const file = join(cliFixture.home, "address");
    await writeFile(file, url, { mode: 0o600 });
    const again = await cliFixture.holdfast("store", "copy", "--from", store, "--to", `url-file:${file}`);
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toMatch(/^holdfast: nothing was copied: postgres database .* already has records/);
    const check = await cliFixture.holdfast("store", "check", `url-file:${file}`, "--json");
    expect(JSON.parse(check.stdout)).toMatchObject({ exists: true, runs: { open: 0, ended: 1 } });
  });

  test.skipIf(whyNoTerminal !== null)("copy shows its progress on a terminal", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.holdfast("run", "--", "true");
    const to = join(fixture.home, "other.sqlite");
    const { code, stdout } = await fixture.atTerminal(["store", "copy", "--from", fixture.store, "--to", to]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/runs: 1[^]*run_events: /);
    expect(stdout).toContain("every table has the same rows and checksum on both sides");
  });

  test("check counts the records of the store in use", async () => {
    await using cliFixture = await CliFixture.open();
    expect((await cliFixture.holdfast("store", "check")).stdout).toMatch(/ has no records yet\n$/);
    await cliFixture.holdfast("run", "--", "true");
    const { code, stdout } = await cliFixture.holdfast("store", "check");
    expect(code).toBe(0);
    expect(stdout).toMatch(/store\.sqlite can be used; schema \d+, 0 open and 1 ended runs, \d+ events\n$/);
    await writeFile(join(cliFixture.home, "x.sqlite"), "no database at all, and long enough to be none");
    const none = await cliFixture.holdfast("store", "check", join(cliFixture.home, "x.sqlite"));
    expect(none.code).toBe(125);
    expect(none.stderr).toContain("is damaged or not a Holdfast store");
  });
});
