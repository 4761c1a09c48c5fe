import { afterAll, beforeAll, expect, test } from "vitest";
import { Many } from "./many.js";
import { Stage } from "./stage.js";

let stage: Stage;
let many: Many;
beforeAll(async () => {
  stage = await Stage.open();
  many = new Many(stage.env);
});
afterAll(async () => {
  await many[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
});

test("help finds commands of commands, and says when there is none", async () => {
  const asked = await many.holdfast("service", "adopt", "--help");
  expect(asked).toMatchObject({ code: 0, stdout: expect.stringContaining("--keep-timeouts") });
  expect(await many.holdfast("help", "service", "adopt")).toEqual(asked);
  expect(await many.holdfast("help")).toEqual(await many.holdfast("--help"));
  for (const words of [
    ["help", "bogus"],
    ["help", "service", "bogus"],
    ["bogus", "--help"],
    ["runs", "bogus", "-h"],
  ])
    expect(await many.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^holdfast: [^\n]*bogus[^\n]*\n$/),
    });
});

test("help shows only what is there, and values as they are written", async () => {
  expect((await many.holdfast("runs", "--help")).stdout).not.toContain("help [command]");
  expect((await many.holdfast("ps", "--help")).stdout).not.toContain("{}");
  expect((await many.holdfast("run", "--help")).stdout).not.toContain("undefined");
  expect((await many.holdfast("gateway", "stop", "--help")).stdout).toContain("(default: 1m)");
});

test("help and version that cannot be written are a failure", async () => {
  const { stdout, stderr } = await stage.shell(
    "holdfast --help >/dev/full; echo $?; holdfast --version >/dev/full; echo $?",
  );
  expect(stdout).toBe("125\n125\n");
  expect(stderr).toMatch(/^(holdfast: cannot write stdout: ENOSPC[^\n]*\n){2}$/);
});
