import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath, collectOutput } from "../../support/cli/cli-fixture.js";
import type { FakeLanguageModel, ModelStep } from "../../support/language-model/fake-language-model.js";
import { descendantsOf, findByCommandLine, signalProcess } from "../../support/live-processes.js";
import { plantLookalike } from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";
import { prepareAgent } from "./agent-recipes.js";

const SLOWLY = 300_000;

/** The one-shot command of each agent, with which it uses tools without asking. */
const commands: Readonly<Record<string, readonly [string, ...string[]]>> = {
  claude: ["claude", "-p", "go", "--dangerously-skip-permissions"],
  codex: ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "go"],
  gemini: ["gemini", "--yolo", "-p", "go"],
  opencode: ["opencode", "run", "go"],
};

interface Fixture {
  readonly gateway: BackgroundGateway;
  readonly model: FakeLanguageModel;
  readonly work: string;
  /** The file into which the default channel writes. */
  readonly told: string;
  readonly start: () => ChildProcess;
}

/** An agent with Holdfast's server, as `holdfast mcp install` configures it, and a gateway with a default channel. */
async function openFixture(name: string): Promise<Fixture> {
  const gateway = await BackgroundGateway.open();
  onTestFinished(() => gateway[Symbol.asyncDispose]());
  const { home, model, inherit } = await prepareAgent(name);
  const work = join(home, "work");
  await mkdir(work);
  const told = join(home, "told");
  const config = join(home, "holdfast.toml");
  const argv = JSON.stringify(["/bin/sh", "-c", `cat >> '${told}'`]);
  await writeFile(config, `[notify]\nchannel = "user"\n[channels.user]\nkind = "command"\nargv = ${argv}\n`);
  await holdfast({ HOLDFAST_HOME: gateway.home, HOLDFAST_CONFIG: config }, "gateway", "start");
  const own = { HOME: home, HOLDFAST_HOME: gateway.home, CODEX_HOME: undefined, XDG_CONFIG_HOME: undefined };
  await holdfast(own, "mcp", "install", name, "--allow", "*", "--apply");
  // Codex waits ten seconds for a server to start, which is too short on a loaded machine.
  if (name === "codex") await appendFile(join(home, ".codex/config.toml"), "startup_timeout_sec = 120\n");
  const [program, ...args] = commands[name] ?? expect.fail(`no command for ${name}`);
  return {
    ...{ gateway, model, work, told },
    start: () => spawn(program, args, { cwd: work, env: inherit, stdio: ["ignore", "pipe", "pipe"] }),
  };
}

async function holdfast(env: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<void> {
  const stdio: ["pipe", "pipe", "pipe"] = ["pipe", "pipe", "pipe"];
  const child = spawn(process.execPath, [cliPath, ...args], { env: { ...process.env, ...env }, stdio });
  child.stdin.end();
  expect(await collectOutput(child).finished).toMatchObject({ code: 0 });
}

/** A call of one of Holdfast's tools. Agents put a prefix before the tool's name. */
function use(tool: string, argumentsOf: (body: string) => Readonly<Record<string, unknown>>): ModelStep {
  return (tools, body) => {
    const found = tools.find(
      ({ name, namespace = name }) => namespace.includes("holdfast") && name.endsWith(tool),
    );
    if (found === undefined)
      return { text: `there is no ${tool} among ${tools.map(({ name }) => name).join(" ")}` };
    const { name, namespace } = found;
    return {
      call: { name, ...(namespace === undefined ? {} : { namespace }), args: argumentsOf(body) },
    };
  };
}

/** On a loaded machine, Claude Code asks its model before the servers have started; it has a tool that waits for them. */
function script(model: FakeLanguageModel, ...steps: readonly ModelStep[]): void {
  const [first, ...others] = steps;
  const begin: ModelStep = (tools, body) => {
    const waits = tools.find(({ name }) => name === "WaitForMcpServers");
    if (waits === undefined || tools.some(({ name }) => name.includes("holdfast")))
      return first?.(tools, body) ?? { text: "nothing to do" };
    model.script.steps.unshift(begin);
    return { call: { name: waits.name, args: {} } };
  };
  model.script.steps = [begin, ...others];
}

const lastOf = (pattern: RegExp, body: string): string => body.match(pattern)?.at(-1) ?? "none";
const lastRun = (body: string): string => lastOf(/run_[0-9a-z]{12}/g, body);
const lastTask = (body: string): string => lastOf(/task_[0-9a-z]{12}/g, body);

const DEV_SERVER = `require("node:http").createServer((_, answer) => answer.end("hello from the server"))
  .listen(0, "127.0.0.1", function () { console.log("serves on port " + this.address().port) })`;

test.each(Object.keys(commands))(
  "%s: starts a server, polls it, types into a REPL, and is notified of the end of work in the background",
  async (name) => {
    plantLookalike("sleep", "3947");
    const { gateway, model, start } = await openFixture(name);
    script(
      model,
      use("exec", () => ({ argv: [process.execPath, "-e", DEV_SERVER], background: true })),
      use("process", (body) => ({ action: "poll", runId: lastRun(body), waitMs: 10_000 })),
      use("exec", (body) => ({
        command: `node -e 'fetch("http://127.0.0.1:${lastOf(/(?<=serves on port )\d+/g, body)}").then((a) => a.text()).then(console.log)'`,
      })),
      use("exec", () => ({ argv: ["sh", "-i"], env: ["PS1=ready> "], terminal: true, yieldMs: 500 })),
      use("process", (body) => ({ action: "submit", runId: lastRun(body), text: "echo sum-$((6*7))" })),
      use("process", (body) => ({ action: "poll", runId: lastRun(body), waitMs: 2_000 })),
      use("process", (body) => ({ action: "screen", runId: lastRun(body) })),
      use("exec", () => ({ command: "sleep 1; echo over", background: true })),
      use("tasks", (body) => ({ action: "wait", taskId: lastTask(body), waitMs: 30_000 })),
    );
    model.script.text = "All done.";
    const agent = start();
    const said = await withTimeout(60_000, `${name} ends`, endOf(agent));
    const last = model.bodies.at(-1) ?? "";
    for (const seen of ["serves on port", "hello from the server", "sum-42"])
      expect(last, said).toContain(seen);
    expect(last, said).toMatch(/task_[0-9a-z]{12}.{1,200}succeeded/);
    // The next connection finds the work that this one started in the background.
    const client = await gateway.client();
    const { tasks } = await client.listTasks({ query: { open: "1" } });
    expect(tasks).toHaveLength(2);
    expect(findByCommandLine("serves on port").length).toBeGreaterThan(0);
  },
  SLOWLY,
);

test.each(Object.keys(commands))(
  "%s: after it was killed with SIGKILL only the declared task is left, and its end is told",
  async (name) => {
    plantLookalike("sleep", "3948");
    const { gateway, model, work, told, start } = await openFixture(name);
    script(
      model,
      use("exec", () => ({
        command: "until [ -e end ]; do sleep 0.1; done; echo declared",
        background: true,
      })),
      use("tasks", (body) => ({ action: "notify", taskId: lastTask(body), policy: "done_only" })),
      use("exec", () => ({
        command: "setsid sleep 3949 & (trap '' TERM; sleep 3950) & sleep 3951",
        yieldMs: 120_000,
      })),
    );
    const agent = start();
    const ended = endOf(agent);
    const commandsAlive = (): number =>
      findByCommandLine("sleep\u000039").filter(({ argv }) => /^39(?:49|50|51)$/.test(argv[1] ?? "")).length;
    await waitFor("the command in the foreground runs", () => commandsAlive() === 3, 60_000);
    // The agent's own processes, without those that it has started for MCP.
    for (const each of descendantsOf(agent.pid ?? 0))
      if (!each.argv.includes("mcp")) signalProcess(each, "SIGKILL");
    agent.kill("SIGKILL");
    await ended;
    await waitFor("its foreground command is gone", () => commandsAlive() === 0, 20_000);
    await waitFor("its server is gone", () => findByCommandLine("mcp\0--allow").length === 0, 20_000);
    const client = await gateway.client();
    const { tasks } = await client.listTasks({ query: { open: "1" } });
    expect(tasks.map(({ status }) => status)).toEqual(["running"]);
    expect((await client.listRuns()).runs).toHaveLength(1);
    await writeFile(join(work, "end"), "");
    await waitFor("the user is told of the end", () => contentOf(told).includes("declared"), 30_000);
    const { messages } = await client.sessionInbox({ params: { id: tasks[0]?.ownerSessionId ?? "" } });
    expect(JSON.stringify(messages)).toContain(tasks[0]?.taskId);
  },
  SLOWLY,
);

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** The output of the agent until its end. */
async function endOf(agent: ChildProcess): Promise<string> {
  const { stdout, stderr } = agent;
  if (stdout === null || stderr === null) return "";
  const [out, error] = await Promise.all([text(stdout), text(stderr), once(agent, "close")]);
  return `${out}\n${error}`;
}
