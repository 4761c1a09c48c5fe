import { existsSync } from "node:fs";
import { mkdir, readFile, realpath, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemdUnit } from "../../../src/cli/service/systemd-unit.js";
import { CliFixture } from "../../support/cli/cli-fixture.js";

let cliFixture: CliFixture;
beforeEach(async () => {
  cliFixture = await CliFixture.open();
});
afterEach(() => cliFixture[Symbol.asyncDispose]());

test("the unit delegates cgroups and leaves the runs when the gateway ends", async () => {
  const { code, stdout } = await cliFixture.shell(
    `XDG_CONFIG_HOME=/nowhere holdfast service install --print`,
  );
  expect(code).toBe(0);
  for (const line of [
    "Delegate=yes",
    "DelegateSubgroup=holdfast-gateway",
    "KillMode=process",
    "OOMPolicy=continue",
    "WantedBy=default.target",
  ])
    expect(stdout.split("\n")).toContain(line);
  expect(stdout).toContain(`"HOLDFAST_HOME=${cliFixture.home}"`);
});

test("install writes the unit for systemd and prints the next steps", async () => {
  const config = join(cliFixture.home, "config");
  const { code, stdout, stderr } = await cliFixture.shell(
    `XDG_CONFIG_HOME='${config}' holdfast service install`,
  );
  const path = join(config, "systemd/user/holdfast.service");
  expect({ code, stdout }).toEqual({ code: 0, stdout: `wrote ${path}\n` });
  expect(stderr).toContain("systemctl --user");
  expect(stderr).toContain("enable-linger");
  const [, main = ""] =
    /^ExecStart="[^"]+" "([^"]+)" gateway run --quiet$/m.exec(await readFile(path, "utf8")) ?? [];
  expect(await realpath(main)).toBe(await realpath("dist/cli/main.js"));
});

test("the database URL is written to a file of the user and never to the unit", async () => {
  const config = join(cliFixture.home, "config");
  const url = "postgres://ada:hunter2@db/x";
  const env = `XDG_CONFIG_HOME='${config}' HOLDFAST_CONFIG=own.toml`;
  const file = join(cliFixture.home, "database-url");
  const shown = await cliFixture.shell(
    `${env} HOLDFAST_DATABASE_URL='${url}' holdfast service install --print`,
  );
  expect(existsSync(file)).toBe(false);
  const { code, stdout, stderr } = await cliFixture.shell(
    `umask 0; ${env} HOLDFAST_DATABASE_URL='${url}' holdfast service install`,
  );
  expect(code).toBe(0);
  const unit = await readFile(join(config, "systemd/user/holdfast.service"), "utf8");
  expect(shown.stdout).toBe(unit);
  expect(unit).toContain(`Environment="HOLDFAST_DATABASE_URL_FILE=${file}"`);
  expect(unit).toContain(`Environment="HOLDFAST_CONFIG=${resolve("own.toml")}"`);
  expect(unit + stdout + stderr).not.toContain("hunter2");
  expect(await readFile(file, "utf8")).toBe(`${url}\n`);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(stderr).toContain(`database.url-file = "${file}"`);
  const wrong = await cliFixture.shell(`${env} HOLDFAST_DATABASE_URL=hunter2 holdfast service install`);
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).not.toContain("hunter2");
  const named = await cliFixture.shell(
    `${env} HOLDFAST_DATABASE_URL_FILE=address holdfast service install --print`,
  );
  expect(named.stdout).toContain(`Environment="HOLDFAST_DATABASE_URL_FILE=${resolve("address")}"`);
});

test("special characters of paths are quoted for systemd", () => {
  const environment = { HOLDFAST_HOME: "/x\\y/$z" };
  const unit = systemdUnit({ node: '/a "b"/node', main: "/50%/main.js", environment });
  expect(unit).toContain('ExecStart="/a \\"b\\"/node" "/50%%/main.js" gateway run --quiet');
  expect(unit).toContain('Environment="HOLDFAST_HOME=/x\\\\y/$$z"');
});

test("config check reports mistakes with their lines; show adds the defaults", async () => {
  await mkdir(cliFixture.home, { recursive: true });
  const path = join(cliFixture.home, "config.toml");
  await writeFile(path, '[[foreign]]\nname = "x"\nmarker = "X_ID"\n');
  const good = await cliFixture.shell(`HOLDFAST_CONFIG='${path}' holdfast config check`);
  expect(good).toMatchObject({
    code: 0,
    stdout: `${path} can be used; it sets foreign; foreign profiles: x\n`,
  });
  const shown = await cliFixture.shell(`HOLDFAST_CONFIG='${path}' holdfast config show --json`);
  expect(JSON.parse(shown.stdout)).toMatchObject({ path, foreign: [{ name: "x", owner: "orphaned" }] });
  await writeFile(path, '[[foreign]]\nname = "x"\nmark = "X_ID"\n');
  const bad = await cliFixture.shell(`HOLDFAST_CONFIG='${path}' holdfast config check`);
  expect(bad.code).toBe(2);
  const listed = await cliFixture.shell(`HOLDFAST_CONFIG='${path}' holdfast config check --json`);
  expect({ ...listed, stdout: JSON.parse(listed.stdout) as unknown }).toMatchObject({
    code: 2,
    stderr: bad.stderr,
    stdout: {
      path,
      usable: false,
      problems: [
        { line: 1, key: "foreign.1.marker", message: "is missing" },
        { line: 3, key: "foreign.1.mark", message: expect.stringMatching(/^is not a setting/) },
      ],
    },
  });
  expect(bad.stderr).toContain(
    `${path}, line 3: foreign.1.mark is not a setting (there are name, marker, owner, grace-ms)`,
  );
});
