import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath, waitForText } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

type Done = Pick<ResponseOf<"runAgent">, "run" | "session" | "result">;

let gatewayFixture: BackgroundGateway;
let batchCli: BatchCli;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.open();
  const config = join(gatewayFixture.home, "config.toml");
  await writeFile(config, fakeAgentsConfig);
  process.env["HOLDFAST_CONFIG"] = config;
  await startGateway(gatewayFixture.home, cliPath);
  batchCli = new BatchCli({ ...gatewayFixture.env, HOLDFAST_CONFIG: config });
});
afterAll(async () => {
  await batchCli[Symbol.asyncDispose]();
  await gatewayFixture[Symbol.asyncDispose]();
  delete process.env["HOLDFAST_CONFIG"];
});

const agent = (...words: readonly string[]) => batchCli.holdfast("agent", "run", ...words);
const gate = (name: string): string => join(gatewayFixture.home, name);

test.each(["text", "codex", "gemini"])("%s: the answer is shown once", async (dialect) => {
  expect(await agent(dialect, "hello")).toEqual({
    code: 0,
    signal: null,
    stdout: "you said: hello\n",
    stderr: "",
  });
});

test("escape sequences of an agent are removed", async () => {
  for (const dialect of ["text", "codex", "gemini"])
    expect(await agent(dialect, "escape")).toMatchObject({ code: 0, stdout: "red: , home: .\n" });
});

test("the exit codes are those of run; an agent that reports an error fails", async () => {
  expect(await agent("codex", "fail")).toMatchObject({
    code: 3,
    stdout: "",
    stderr: expect.stringContaining("the model said no") as string,
  });
  expect(await agent("codex", "quiet")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: "holdfast: the model said no\n",
  });
  const broken = await agent("codex", "broken");
  expect(broken).toMatchObject({ code: 4, stdout: "" });
  expect(await agent("codex", "hello", "--cwd", "/nonexistent")).toMatchObject({ stdout: "" });
  expect(await agent("nobody", "x")).toMatchObject({ code: 1, stdout: "" });
  for (const missing of [
    ["agent", "run"],
    ["acp", "spawn"],
  ])
    expect(await batchCli.holdfast(...missing, "claude", "x")).toMatchObject({
      code: 127,
      stdout: "",
      stderr: expect.stringMatching(
        /^(holdfast: claude-agent-acp is not installed.*\n)?holdfast: cannot run claude.*\n.*shows how to install it\n$/,
      ) as string,
    });
});

test("--json prints run, session and result; --resume last continues the session", async () => {
  const first = await agent("pi", "hello", "--json");
  const { run, session, result } = JSON.parse(first.stdout) as Done;
  expect(first).toMatchObject({ code: 0, stderr: "you said: hello\n" });
  expect(run).toMatchObject({ state: "exited", backendId: "cli", sessionId: session.id });
  expect(result).toMatchObject({ text: "you said: hello", error: null });
  const next = await agent("pi", "--resume", "last", "more");
  expect(next.stdout).toBe(`again in ${result?.agentSessionId}: more\n`);
  const { stdout } = await batchCli.holdfast("sessions", "history", session.key);
  expect(stdout).toMatch(
    /^#1 user, operator, .*\nhello\n\n#2 agent, run:run_\w+, .*\nyou said: hello\n\n#3 user, .*\nmore\n\n#4 /,
  );
});

test("--background prints the run id, and the answer is in its session", async () => {
  const { code, stdout, stderr } = await agent("result", "--background", "hello");
  const runId = stdout.trim();
  expect({ code, runId }).toEqual({ code: 0, runId: expect.stringMatching(/^run_\w+$/) as string });
  const [id = ""] = /ses_\w+/.exec(stderr) ?? [];
  await waitFor("it is answered", async () =>
    (await batchCli.holdfast("sessions", "history", id)).stdout.includes("you said: hello"),
  );
  await gatewayFixture.waitForEnd(runId);
});

/** Starts an agent that works until the gate is opened, and returns its run. */
async function workingAgent(name: string) {
  const env = { GATE: gate(name) };
  const { child, finished } = gatewayFixture.startWith(env, "agent", "run", "codex", "wait");
  await waitForText(child.stdout, "working\n");
  const { runs } = await (await gatewayFixture.client()).listRuns();
  const run = runs.find(({ backendId }) => backendId === "cli");
  return { child, finished, runId: run?.runId ?? "", sessionId: run?.sessionId ?? "" };
}

test.each(["SIGINT", "SIGKILL"] as const)(
  "the end of the caller by %s ends the agent and its processes",
  async (signal) => {
    const { child, finished, runId, sessionId } = await workingAgent("never");
    child.kill(signal);
    const { code } = await finished;
    if (signal === "SIGINT") expect(code).toBe(130);
    expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "manual-cancel" },
      emptiness: "proven",
    });
    const client = await gatewayFixture.client();
    await waitFor("the cancellation is in the session", async () => {
      const { messages } = await client.sessionHistory({ params: { id: sessionId } });
      return messages.at(-1)?.role === "system" && messages.at(-1)?.text.includes("cancelled") === true;
    });
  },
);

test("the output of an agent continues when the gateway is killed, and is kept once", async () => {
  const { finished, sessionId } = await workingAgent("killed");
  const { pid } = await gatewayFixture.status();
  process.kill(pid, "SIGKILL");
  await writeFile(gate("killed"), "");
  expect(await finished).toMatchObject({ code: 0, stdout: "working\ndone\n" });
  const client = await gatewayFixture.client();
  const { messages } = await client.sessionHistory({ params: { id: sessionId } });
  expect(messages.map(({ role, text }) => `${role}: ${text}`)).toEqual(["user: wait", "agent: done"]);
});

test("- reads the prompt from stdin", async () => {
  const { child, finished } = gatewayFixture.startWith({}, "agent", "run", "codex", "-");
  child.stdin.end("piped");
  expect(await finished).toMatchObject({ code: 0, stdout: "you said: piped\n" });
});

test("agents: list and check", async () => {
  const { stdout } = await batchCli.holdfast("agents", "list");
  expect(stdout).toMatch(/^codex +config +- +\/\S*node /m);
  expect(stdout).toMatch(/^claude +built-in +\S.*npm install/m);
  const checked = await batchCli.holdfast("agents", "check", "codex", "--json");
  expect(checked.code).toBe(0);
  expect(JSON.parse(checked.stdout)).toMatchObject([
    { agent: { id: "codex" }, checks: [{ version: "1.2.3", failure: null }] },
  ]);
  expect(await batchCli.holdfast("agents", "check", "codex", "copilot")).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(/^codex +cli +1\.2\.3 +works .*\ncopilot .* not-found/m) as string,
  });
});
