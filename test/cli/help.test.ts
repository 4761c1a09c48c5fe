import { afterAll, beforeAll, expect, test } from "vitest";
import { BatchCli } from "../support/cli/batch-cli.js";
import { CliFixture } from "../support/cli/cli-fixture.js";

let cliFixture: CliFixture;
let batchCli: BatchCli;
beforeAll(async () => {
  cliFixture = await CliFixture.open();
  batchCli = new BatchCli(cliFixture.env);
});
afterAll(async () => {
  await batchCli[Symbol.asyncDispose]();
  await cliFixture[Symbol.asyncDispose]();
});

test("help finds sub-commands, and refuses unknown ones", async () => {
  const asked = await batchCli.holdfast("service", "adopt", "--help");
  expect(asked).toMatchObject({ code: 0, stdout: expect.stringContaining("--keep-timeouts") });
  expect(await batchCli.holdfast("help", "service", "adopt")).toEqual(asked);
  expect(await batchCli.holdfast("help")).toEqual(await batchCli.holdfast("--help"));
  for (const words of [
    ["help", "bogus"],
    ["help", "service", "bogus"],
    ["bogus", "--help"],
    ["runs", "bogus", "-h"],
  ])
    expect(await batchCli.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^holdfast: [^\n]*bogus[^\n]*\n$/),
    });
});

test("help shows no help command, and formats default values", async () => {
  expect((await batchCli.holdfast("runs", "--help")).stdout).not.toContain("help [command]");
  expect((await batchCli.holdfast("ps", "--help")).stdout).not.toContain("{}");
  const { stdout } = await batchCli.holdfast("run", "--help");
  expect(stdout).not.toContain("undefined");
  for (const text of ["--no-output-timeout <duration>", "(default: 8 MiB)", "Examples:"])
    expect(stdout).toContain(text);
  expect((await batchCli.holdfast("gateway", "stop", "--help")).stdout).toContain("(default: 1m)");
});

test("a failed write of help or version is a failure", async () => {
  const { stdout, stderr } = await cliFixture.shell(
    "holdfast --help >/dev/full; echo $?; holdfast --version >/dev/full; echo $?",
  );
  expect(stdout).toBe("125\n125\n");
  expect(stderr).toMatch(/^(holdfast: cannot write stdout: ENOSPC[^\n]*\n){2}$/);
});
