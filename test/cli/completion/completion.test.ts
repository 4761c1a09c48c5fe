import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CliFixture, cliPath } from "../../support/cli/cli-fixture.js";

let cliFixture: CliFixture;
beforeEach(async () => {
  cliFixture = await CliFixture.open();
});
afterEach(() => cliFixture[Symbol.asyncDispose]());

/** The completions that bash offers after these words. */
async function offered(words: readonly string[]): Promise<string[]> {
  const { stdout } = await cliFixture.holdfast("completion", "bash");
  const script = join(cliFixture.home, "completion.bash");
  await writeFile(script, stdout);
  const line = words.map((word) => `'${word}'`).join(" ");
  const asked = `source '${script}'; COMP_WORDS=(holdfast ${line}); COMP_CWORD=${words.length}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout: answer, stderr } = spawnSync(
    "bash",
    ["--norc", "-c", `holdfast() { "${process.execPath}" "${cliPath}" "$@"; }; ${asked}`],
    { encoding: "utf8", env: cliFixture.env },
  );
  expect(stderr).toBe("");
  return answer.split("\n").filter((word) => word !== "");
}

test("bash completes commands, commands of commands, and options", async () => {
  expect(await offered(["ga"])).toEqual(["gateway", "gateways"]);
  expect(await offered(["runs", "c"])).toEqual(["cleanup"]);
  expect(await offered(["runs", "list", "--st"])).toEqual(["--state"]);
  expect(await offered(["process", "l"])).toEqual(["list", "log"]);
  expect(await offered(["approvals", "list", "--f"])).toEqual(["--follow"]);
  expect(await offered(["run", "--cwd", ""])).toEqual([]);
  expect(await offered(["run", "--cwd", "/", "--serv"])).toEqual(["--service"]);
  expect(await offered(["run", "--", "ls", "--"])).toEqual([]);
});

test("bash completes runs by id and by name, and channels", async () => {
  const config = join(cliFixture.home, "config.toml");
  await writeFile(config, '[channels.ops]\nkind = "bell"\n');
  process.env["HOLDFAST_CONFIG"] = config;
  const { stdout } = await cliFixture.holdfast("run", "--json", "--name", "web", "--", "true");
  const { runId } = JSON.parse(stdout) as { readonly runId: string };
  expect(await offered(["logs", "r"])).toEqual([runId]);
  expect(await offered(["stop", "w"])).toEqual(["web"]);
  expect(await offered(["run", "--notify-channel", "o"])).toEqual(["ops"]);
  delete process.env["HOLDFAST_CONFIG"];
});

test("every shell gets a script that it can read", async () => {
  for (const shell of ["zsh", "fish"]) {
    const { code, stdout } = await cliFixture.holdfast("completion", shell);
    expect(code).toBe(0);
    expect(stdout).toContain("cleanup");
    if (spawnSync(shell, ["-n", "-c", stdout]).error === undefined)
      expect(spawnSync(shell, ["-n", "-c", stdout]).status).toBe(0);
  }
  expect(await cliFixture.holdfast("completion", "tcsh")).toMatchObject({ code: 2, stdout: "" });
});
