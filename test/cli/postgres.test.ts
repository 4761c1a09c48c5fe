import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { migrations } from "../../src/store/sql/migrations.js";
import { findWaitingGateway } from "../../src/gateway/gateway-files.js";
import { postgresForSuite, whyNoPostgres } from "../support/store/postgres-server.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { CliFixture } from "../support/cli/cli-fixture.js";

describe.skipIf(whyNoPostgres !== null)("with HOLDFAST_DATABASE_URL", () => {
  const server = postgresForSuite();

  test(
    "a run is recorded in the database, and its environment has no DATABASE_URL",
    { timeout: 90_000 },
    async () => {
      await using cliFixture = await CliFixture.open();
      const database = await server.createDatabase();
      await using batchCli = new BatchCli({ ...cliFixture.env, HOLDFAST_DATABASE_URL: database.url });
      const holdfast = (...args: string[]) => batchCli.holdfast(...args);
      expect(await holdfast("runs", "list", "--json")).toMatchObject({ code: 0, stdout: "[]\n" });
      const ran = await holdfast("run", "--", "sh", "-c", "env; exit 3");
      expect(ran).toMatchObject({ code: 3, stderr: "" });
      expect(ran.stdout).not.toContain("DATABASE_URL");
      const [record] = await database.query("select state, exit_code, emptiness from holdfast.runs");
      expect(record).toEqual({ state: "exited", exit_code: "3", emptiness: "proven" });
      const stateId = (await readFile(join(cliFixture.home, "state-id"), "utf8")).trim();
      expect(
        await database.query("select state_id, name from holdfast.runs join holdfast.hosts using (host_id)"),
      ).toEqual([{ state_id: stateId, name: hostname() }]);
      expect(await holdfast("gateways", "list", "--json")).toMatchObject({ code: 0, stdout: "[]\n" });
      expect(existsSync(join(cliFixture.home, "store.sqlite"))).toBe(false);
      const [shown] = JSON.parse((await holdfast("runs", "list", "--all", "--json")).stdout) as {
        exit: object;
      }[];
      expect(shown?.exit).toMatchObject({ code: 3 });
      const doctor = await holdfast("doctor", "--json");
      expect(doctor.stdout).toContain(`schema ${migrations.at(-1)?.id}, 0 open and 1 ended runs`);
    },
  );

  test("without the database nothing is started; a gateway waits for it and reports that, without the password", async () => {
    await using cliFixture = await CliFixture.open();
    const env = { HOLDFAST_DATABASE_URL: "postgres://u:hunter2@localhost/x?host=/nowhere" };
    const holdfast = (...args: string[]) => cliFixture.startWith(env, ...args).finished;
    const failed = { code: 125, stderr: expect.stringContaining("cannot be reached") as string };
    for (const args of [
      ["gateway", "start"],
      ["gateway", "run", "--no-wait"],
      ["run", "--", "true"],
    ])
      expect(await holdfast(...args)).toMatchObject({ ...failed, stdout: "" });
    await expect.poll(() => findWaitingGateway(cliFixture.home), { timeout: 15_000 }).toBeNull();
    const gateway = cliFixture.startWith(env, "gateway", "run");
    await expect.poll(() => findWaitingGateway(cliFixture.home), { timeout: 15_000 }).not.toBeNull();
    const status = await holdfast("gateway", "status", "--json");
    expect(JSON.parse(status.stdout)).toMatchObject({ running: false, waiting: { pid: gateway.child.pid } });
    expect((await holdfast("doctor")).stdout).toContain("waits for its store");
    gateway.child.kill("SIGTERM");
    const ended = await gateway.finished;
    expect(ended).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("waiting for the store") as string,
    });
    expect(ended.stderr).not.toContain("hunter2");
    expect(await findWaitingGateway(cliFixture.home)).toBeNull();
  });

  test("the config file can name it, and no command prints its password", async () => {
    await using cliFixture = await CliFixture.open();
    const database = await server.createDatabase();
    const config = join(cliFixture.home, "config.toml");
    const file = join(cliFixture.home, "address");
    await using batchCli = new BatchCli({ ...cliFixture.env, HOLDFAST_CONFIG: config });
    const holdfast = (...args: string[]) => batchCli.holdfast(...args);
    const url = database.url.replace("postgres@", "postgres:hunter2@");
    await writeFile(file, `${url}\n`, { mode: 0o600 });
    for (const setting of [`url = "${url}"`, `url-file = "${file}"`]) {
      await writeFile(config, `[database]\n${setting}\n`, { mode: 0o600 });
      expect(await holdfast("run", "--", "true")).toMatchObject({ code: 0, stderr: "" });
      const shown = [];
      for (const json of [[], ["--json"]])
        for (const command of ["show", "check"]) shown.push(await holdfast("config", command, ...json));
      expect(shown.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
      const text = shown.map(({ stdout, stderr }) => stdout + stderr).join("");
      expect(text).toContain("database.url");
      expect(text).not.toContain("hunter2");
    }
    expect(await database.query("select count(*) from holdfast.runs")).toEqual([{ count: "2" }]);
    expect(existsSync(join(cliFixture.home, "store.sqlite"))).toBe(false);
  });
});
