import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { featureAgent } from "../../support/agents/acp-fixture.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const shared = gatewayAndCliForFile();
const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);
let directory = "";
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "login-"));
});

const agentCommand = (file: string): string =>
  featureAgent(`login=${file}`)
    .map((word) => `'${word}'`)
    .join(" ");

test("a failed spawn says how to log in; login lists the methods and uses one", async () => {
  const file = join(directory, "browser");
  const agent = ["--agent-command", agentCommand(file)];
  const failed = await acp("spawn", ...agent, "--name", "closed", "hello");
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toContain("Log in with a browser (browser): Opens a page");
  expect(failed.stderr).toContain("holdfast acp login");
  expect((await acp("show", "closed")).stdout).toContain("closed: the agent needs a login");

  const several = await acp("login", ...agent);
  expect(several).toMatchObject({ code: 2 });
  expect(several.stderr).toContain("choose one with --method");
  const broken = await acp("login", ...agent, "--method", "broken");
  expect(broken).toMatchObject({ code: 1 });
  expect(broken.stderr).toContain("the page cannot be opened");
  expect(existsSync(file)).toBe(false);
  // The batch has no terminal.
  expect((await acp("login", ...agent, "--method", "terminal")).stderr).toContain("needs a terminal");
  expect(await acp("login", ...agent, "--method", "browser")).toMatchObject({ code: 0 });
  expect(await acp("spawn", ...agent, "--mode", "run", "hello")).toMatchObject({ code: 0 });
  expect(await acp("login")).toMatchObject({ code: 2 });
});

test("a terminal login runs in the user's terminal", async () => {
  const file = join(directory, "terminal");
  const words = ["--agent-command", agentCommand(file), "--method", "terminal"];
  const argv = [process.execPath, cliPath, "acp", "login", ...words];
  const runId = await shared.gatewayFixture.startRun({
    argv,
    pty: true,
    rows: 20,
    cols: 80,
    env: { TERM: "xterm" },
  });
  const client = await shared.gatewayFixture.client();
  await waitFor("the login asks for a code", async () =>
    (await client.screen({ params: { runId } })).rows.some((row) => row.includes("code:")),
  );
  await client.sendKeys({ params: { runId }, body: { keys: ["1", "2", "3", "4", "Enter"] } });
  expect(await shared.gatewayFixture.waitForEnd(runId)).toMatchObject({ exit: { code: 0 } });
  expect(readFileSync(file, "utf8")).toBe("by terminal");
});
