import { afterAll, beforeAll, expect, test } from "vitest";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";

/** In the environment of the gateway's own process, and of no session. */
const OWN = { GATEWAYS_OWN: "hush-own", GATEWAYS_API_KEY: "hush-key" };

let gatewayFixture: BackgroundGateway;
let token: string;
beforeAll(async () => {
  Object.assign(process.env, OWN);
  gatewayFixture = await BackgroundGateway.started();
  for (const name of Object.keys(OWN)) delete process.env[name];
  const programs = ["env", "sh", process.execPath];
  const rules = programs.map((executable) => ({ effect: "allow" as const, executable }));
  const body = { key: "judged", execRules: [...rules, { effect: "deny" as const }] };
  token = (await (await gatewayFixture.client()).openSession({ body })).token;
});
afterAll(() => gatewayFixture[Symbol.asyncDispose]());

function session(more: Record<string, string> = {}): BatchCli {
  return new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: token, ...more });
}

test("a session's command gets the operator's PATH and no secrets of the gateway", async () => {
  await using own = session();
  const { code, stdout } = await own.holdfast("run", "--", "env");
  expect(code).toBe(0);
  expect(stdout).not.toContain("hush-");
  expect(stdout).toContain(`\nPATH=${process.env["PATH"]}\n`);
  expect(stdout).toContain("\nHOLDFAST_TOKEN=");
});

test("variables that are not listed are refused by name; --clear-env leaves them out", async () => {
  await using own = session({ MAKEFLAGS: "--eval=x", PATH: `/tmp:${process.env["PATH"]}`, LANG: "C" });
  for (const words of [["run"], ["run", "-d"], ["run", "--service"]])
    expect(await own.holdfast(...words, "--", "env")).toMatchObject({
      code: 126,
      stdout: "",
      stderr: expect.stringMatching(
        /variables that are not listed: MAKEFLAGS, PATH\. .*--clear-env.*environment\.pass/,
      ),
    });
  const { code, stdout } = await own.holdfast("run", "--clear-env", "--", "env");
  expect(code).toBe(0);
  expect(stdout).not.toContain("MAKEFLAGS");
});

test("a command inside a session's run can run commands without further options", async () => {
  await using own = session();
  const nested = `cd / && exec ${process.execPath} ${cliPath} run -- env`;
  const { code, stdout, stderr } = await own.holdfast("run", "--", "sh", "-c", nested);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("HOLDFAST_SESSION_KEY=judged");
});
